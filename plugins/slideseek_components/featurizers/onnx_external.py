"""Find out whether an ONNX model stores tensors in other files, by reading only its bytes.

A runtime would open such files at any path given in the model. The few messages of the format that lead to a
tensor are followed by field number (the protobuf wire format), so the `onnx` package is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator

_CHILDREN: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14


def has_external_data(model: bytes) -> bool:
    """Return whether any tensor of the serialised model lies in another file; ValueError if it is not a protobuf."""
    open_messages = [("model", memoryview(model))]
    while open_messages:
        kind, message = open_messages.pop()
        for number, value in _fields(message):
            if kind == "tensor" and (number == _EXTERNAL_DATA or (number == _DATA_LOCATION and value != 0)):
                return True
            child = _CHILDREN.get(kind, {}).get(number)
            if child and not isinstance(value, int):
                open_messages.append((child, value))
    return False


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield field numbers with their values: a number, or the bytes of a message or string."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if wire == 2:
            length, at = _varint(message, at)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire} at byte {at}")
        if at + length > len(message):
            raise ValueError(f"{length} bytes expected at byte {at}, {len(message) - at} left")
        yield key >> 3, message[at : at + length]
        at += length


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(f"unterminated number at byte {at}")
