"""Check the files a component saved: opening an archive must never run code, so no file may contain a pickle."""

from __future__ import annotations

import json
import pickletools
import warnings
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from slideseek_apps.testing.checks import described, require

_PICKLE_STARTS = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))
_RUNS = ("GLOBAL", "INST")
_FIX = "write arrays with safetensors.numpy.save_file and the rest with json"


def require_no_pickle(folder: Path, suffixes: tuple[str, ...] = ()) -> None:
    """Require that `folder` has files, none of them a pickle, all with one of `suffixes` if any are given."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    require(bool(files), "save() to write at least one file", "an empty folder", _FIX)
    for path in files:
        name = path.relative_to(folder).as_posix()
        require(not suffixes or path.suffix in suffixes, f"only {', '.join(suffixes)} files", f"a file {name}", _FIX)
        with path.open("rb") as file:
            reason = pickle_in(file) or (_not_json(path) if path.suffix == ".json" else "")
        require(not reason, "files without a pickle", f"{name}, which {reason}", _FIX)


def pickle_in(file: IO[bytes]) -> str:
    """Return "" for a file without a pickle, else the reason; also checks zip archives and arrays."""
    start = file.read(6)
    file.seek(0)
    # No instruction of a pickle is 0: a safetensors file with a header of 640 bytes starts with 0x80, 2, 0.
    if start.startswith(_PICKLE_STARTS) and start[2:3] != b"\0":
        return "starts like a pickle"
    if start == b"\x93NUMPY":
        try:
            np.lib.format.read_array(file, allow_pickle=False)
        except ValueError as error:
            return f"is not a plain array ({described(error)})"
    elif _is_old_pickle(file):
        return "is a pickle of an old protocol"
    elif zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            for member in archive.namelist():
                with archive.open(member) as entry:
                    if reason := pickle_in(entry):
                        return f"is an archive with {member} in it, which {reason}"
    return ""


def _is_old_pickle(file: IO[bytes]) -> bool:
    """Return whether a file parses as a pickle without a protocol header: to its end, or up to code it would run.

    Nothing is loaded. The position of `file` is restored.
    """
    names = set()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # from strings in files that are not pickles
            for code, _, _ in pickletools.genops(file):
                names.add(code.name)
        return not file.read(1) or not names.isdisjoint(_RUNS)
    except (ValueError, OverflowError, MemoryError):
        return False
    finally:
        file.seek(0)


def _not_json(path: Path) -> str:
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # undecodable bytes are a ValueError too
        return f"is not JSON ({described(error)})"
    return ""
