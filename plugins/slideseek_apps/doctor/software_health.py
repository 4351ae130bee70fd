"""Check installed versions against the minimum slideseek declares, and the device networks run on."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib import metadata

from slideseek import __version__
from slideseek.errors import one_line
from slideseek_apps.doctor.finding import Finding

OPENSLIDE_FLOOR = (4, 0, 1)
"""Older versions read past the end of crafted files."""

PYTHON_FLOOR = (3, 11)
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)[^;<>=]*(?P<limits>[^;]*)(?P<marker>;.*)?")


def look_at_software() -> Iterator[Finding]:
    """Yield findings about Python, the required packages and the OpenSlide library."""
    yield Finding("software", "slideseek", "ok", f"{__version__} on {platform.system()} {platform.machine()}")
    python = platform.python_version()
    if sys.version_info[:2] >= PYTHON_FLOOR:
        yield Finding("software", "Python", "ok", python)
    else:
        yield Finding("software", "Python", "fail", f"{python}, older than 3.11", "install Python 3.11 or newer")
    yield from _packages(metadata.requires("slideseek") or [])
    yield openslide_library()


def openslide_library() -> Finding:
    """Check the version of the loaded OpenSlide library, which may not be the one installed with slideseek."""
    import openslide

    found = str(openslide.__library_version__)
    if numbers(found) >= OPENSLIDE_FLOOR:
        return Finding("software", "OpenSlide library", "ok", found)
    floor = ".".join(map(str, OPENSLIDE_FLOOR))
    cause = f"{found}, older than {floor}, which has security fixes for crafted slides"
    return Finding("software", "OpenSlide library", "fail", cause, f"pip install 'openslide-bin>={floor}'")


def look_at_device() -> Iterator[Finding]:
    """Yield the device networks run on: a GPU if PyTorch sees one, and the CPU threads."""
    try:
        import torch
    except Exception as error:  # a broken installation of PyTorch can raise anything
        yield Finding("device", "PyTorch", "fail", one_line(error), "reinstall PyTorch")
        return
    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
        yield Finding("device", "GPU", "ok", f"CUDA: {names}")
    elif torch.backends.mps.is_available():
        yield Finding("device", "GPU", "ok", "Apple MPS")
    else:
        yield Finding("device", "GPU", "ok", "none; networks run on the CPU")
    yield Finding(
        "device", "CPU", "ok", f"{os.cpu_count() or 1} cores, PyTorch uses {torch.get_num_threads()} thread(s)"
    )


def _packages(requirements: list[str]) -> Iterator[Finding]:
    """Yield one line for all packages that are fine, and one for each that is not."""
    fine = 0
    for text in requirements:
        parsed = _REQUIREMENT.match(text)
        if parsed is None or "extra" in (parsed["marker"] or ""):
            continue
        name, limits = parsed["name"], parsed["limits"].strip()
        fix = f"pip install '{name}{limits}'"
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Finding("software", name, "fail", "not installed", fix)
            continue
        if within(version, limits):
            fine += 1
        else:
            yield Finding("software", name, "warn", f"{version}; slideseek is tested with {limits}", fix)
    yield Finding("software", "packages", "ok", f"{fine} required packages have supported versions")


def within(version: str, limits: str) -> bool:
    """Return whether a version is within limits such as `>=2.1,<3`. Operators other than >= and < are ignored."""
    found = numbers(version)
    for limit in filter(None, (part.strip() for part in limits.split(","))):
        if limit.startswith(">=") and found < numbers(limit[2:]):
            return False
        if limit.startswith("<") and not limit.startswith("<=") and found >= numbers(limit[1:]):
            return False
    return True


def numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, 2.13.0+cpu as 2, 13. Trailing zeros are dropped, so 3 equals 3.0."""
    leading = re.match(r"\d+(\.\d+)*", version.strip())
    found = [int(part) for part in leading.group().split(".")] if leading else []
    while found and found[-1] == 0:
        found.pop()
    return tuple(found)
