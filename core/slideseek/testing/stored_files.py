"""Look into what a component saved: opening an archive must never run code, so no file may hold a pickle."""

from __future__ import annotations

import json
import pickletools
import warnings
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from slideseek.testing.checks import described, require

_PICKLE_STARTS = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))
_RUNS = ("GLOBAL", "INST")
_MEND = "write arrays with safetensors.numpy.save_file and the rest with json"


def require_no_pickle(folder: Path, suffixes: tuple[str, ...] = ()) -> None:
    """Require that `folder` holds files, none of them a pickle, all with one of `suffixes` when any are given."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    require(bool(files), "save() to write at least one file", "an empty folder", _MEND)
    for path in files:
        name = path.relative_to(folder).as_posix()
        require(not suffixes or path.suffix in suffixes, f"only {', '.join(suffixes)} files", f"a file {name}", _MEND)
        with path.open("rb") as file:
            reason = pickle_in(file) or (_not_json(path) if path.suffix == ".json" else "")
        require(not reason, "files without a pickle", f"{name}, which {reason}", _MEND)


def pickle_in(file: IO[bytes]) -> str:
    """Return "" for a file without a pickle, else what gives it away; looks into zip archives and arrays too."""
    start = file.read(6)
    file.seek(0)
    if start.startswith(_PICKLE_STARTS):
        return "begins as a pickle does"
    if start == b"\x93NUMPY":
        try:
            np.lib.format.read_array(file, allow_pickle=False)
        except ValueError as error:
            return f"is not a plain array ({described(error)})"
    elif _is_old_pickle(file):
        return "reads as a pickle of an old protocol"
    elif zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            for member in archive.namelist():
                with archive.open(member) as entry:
                    if reason := pickle_in(entry):
                        return f"is an archive with {member} in it, which {reason}"
    return ""


def _is_old_pickle(file: IO[bytes]) -> bool:
    """Say whether a file reads as a pickle that does not begin with its protocol: to its end, or naming code to run.

    Nothing is loaded. `file` is left where it was.
    """
    names = set()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about texts in what is no pickle
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
        return f"is no JSON ({described(error)})"
    return ""
