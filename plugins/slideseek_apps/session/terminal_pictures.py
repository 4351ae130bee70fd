"""Pictures in a terminal: with the protocol of kitty, iTerm2 or sixel, or as blocks of colour.

The protocol is detected from environment variables. If they do not say, and inside tmux, which inherits the variables
of the surrounding terminal, the terminal is queried for its device attributes (attribute 4 is sixel).
"""

from __future__ import annotations

import base64
import io
import os
import re
import select
import sys
from collections.abc import Mapping
from typing import Literal, TypeAlias

import numpy as np
from PIL import Image

from slideseek.types import UInt8
from slideseek_apps.session.sixel import sixel_text

PictureProtocol: TypeAlias = Literal["kitty", "iterm", "sixel", "blocks", "none"]
CHUNK = 4096
BLOCK_COLUMNS = 56
ANSWER_SECONDS = 0.25


class Pictures:
    """Show pictures with one protocol; `none` shows nothing."""

    def __init__(self, protocol: PictureProtocol) -> None:
        self.protocol = protocol

    @property
    def can_show(self) -> bool:
        """Whether `show` shows anything."""
        return self.protocol != "none"

    def show(self, picture: UInt8) -> None:
        """Write a picture, RGB uint8 (h, w, 3), to the terminal."""
        if self.can_show:
            sys.stdout.write(encode(picture, self.protocol) + "\n")
            sys.stdout.flush()


def encode(picture: UInt8, protocol: PictureProtocol) -> str:
    """Return the escape sequences that show a picture."""
    if protocol == "kitty":
        return _kitty(_png(picture))
    if protocol == "iterm":
        data = _png(picture)
        name = f"inline=1;size={len(data)};width={picture.shape[1]}px;preserveAspectRatio=1"
        return f"\x1b]1337;File={name}:{base64.b64encode(data).decode('ascii')}\a"
    if protocol == "sixel":
        return sixel_text(picture)
    return _blocks(picture) if protocol == "blocks" else ""


def detect(environment: Mapping[str, str]) -> PictureProtocol:
    """Return the protocol of the terminal on standard input and output; `none` for a pipe."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "none"
    known = from_environment(environment)
    if known in ("kitty", "iterm"):
        return known
    return "sixel" if "4" in _device_attributes() else known


def from_environment(environment: Mapping[str, str]) -> PictureProtocol:
    """Return the protocol according to the environment variables; `none` if they do not mention colour."""
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if not environment.get("TMUX") and not term.startswith(("screen", "tmux")):
        if environment.get("KITTY_WINDOW_ID") or term in ("xterm-kitty", "xterm-ghostty") or program == "ghostty":
            return "kitty"
        if program in ("iTerm.app", "WezTerm") or environment.get("LC_TERMINAL") == "iTerm2":
            return "iterm"
    return "blocks" if environment.get("COLORTERM") in ("truecolor", "24bit") else "none"


def _device_attributes() -> list[str]:
    """Query the terminal for its attributes. Empty if it does not answer at once, or without POSIX terminals."""
    try:
        import termios
        import tty
    except ImportError:
        return []
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    answer = b""
    try:
        tty.setcbreak(descriptor)
        sys.stdout.write("\x1b[c")
        sys.stdout.flush()
        while not answer.endswith(b"c") and select.select([descriptor], [], [], ANSWER_SECONDS)[0]:
            answer += os.read(descriptor, 64)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
    found = re.search(rb"\x1b\[\?([\d;]+)c", answer)
    return found.group(1).decode("ascii").split(";")[1:] if found else []


def _png(picture: UInt8) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "PNG")
    return buffer.getvalue()


def _kitty(png: bytes) -> str:
    """Send a PNG in chunks; the first has the settings, all but the last announce another."""
    data = base64.b64encode(png).decode("ascii")
    chunks = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]
    parts = []
    for number, chunk in enumerate(chunks):
        settings = "a=T,f=100,q=2," if number == 0 else ""
        parts.append(f"\x1b_G{settings}m={int(number < len(chunks) - 1)};{chunk}\x1b\\")
    return "".join(parts)


def _blocks(picture: UInt8) -> str:
    """Draw with half blocks: each character is two pixels, one above the other, in 24-bit colour."""
    columns = min(BLOCK_COLUMNS, picture.shape[1])
    rows = max(1, round(picture.shape[0] * columns / picture.shape[1] / 2))
    small = np.asarray(Image.fromarray(picture).resize((columns, 2 * rows), Image.Resampling.BOX))
    lines = []
    for upper, lower in zip(small[0::2], small[1::2]):
        cells = [f"\x1b[38;2;{a};{b};{c};48;2;{d};{e};{f}m▀" for (a, b, c), (d, e, f) in zip(upper, lower)]
        lines.append("".join(cells) + "\x1b[0m")
    return "\n".join(lines)
