"""Open a slide with the first reader that takes it, or raise an error that explains why none does."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from slideseek.boundary import Owner
from slideseek.digests import digest
from slideseek.errors import PluginError, SlideError
from slideseek.interfaces import OpenedSlide, Reader, Remote, implements
from slideseek.makers import maker_of
from slideseek.plugins import DISABLED_VARIABLE, load_registry
from slideseek.slides.remote_path import RemotePath
from slideseek.slides.slide_errors import FEATURE_SUFFIXES, DeclinedError, first_bytes, not_a_slide

_FIX = f"update the plugin, or name it in {DISABLED_VARIABLE} to work without it"


def open_slide(path: Path, slide_id: str = "", mpp: float | None = None) -> OpenedSlide:
    """Open a whole-slide image or a plain image.

    slide_id: its name in the archive, the file's stem if empty. mpp: µm per pixel stated by the user, which overrides
    the file. Raises `SlideError` for anything that is not a readable slide of known resolution, and for a reader that
    crashes when it opens the file. One that crashes earlier is passed over, and a note of the slide says so.
    """
    path = path if isinstance(path, RemotePath) else Path(path)
    if path.suffix.lower() in FEATURE_SUFFIXES and path.is_file():
        raise SlideError(
            f"slide {slide_id or path.stem!r} has imported features and no slide file"
            if slide_id
            else f"{path.name} is a feature file, not a slide",
            "use an engine of imported features ('slideseek status' lists the engines), or add the slide file with a"
            " manifest that names this slide",
        )
    passed_over: list[str] = []
    for owner, reader, read_by in claiming(path, passed_over):
        try:
            slide = owner.call(f"open({path.name!r})", reader.open, path, slide_id or path.stem, mpp)
        except DeclinedError:
            continue
        except PluginError as error:
            # Not left to the readers after it: they may take the file for something else, and store wrong results.
            raise SlideError(error.cause, _FIX) from error
        if not isinstance(slide, OpenedSlide):
            raise SlideError(f"{owner} opened {path.name} as {type(slide).__name__}, not as a PyramidSlide", _FIX)
        if slide.owner is None:  # otherwise it was opened on behalf of another reader
            slide.owner, slide.read_by = owner, read_by
        if passed_over:
            slide.add_notes(passed_over)
        return slide
    refusal = not_a_slide(path)
    causes = (*passed_over, *installed_readers()[1])
    raise SlideError("; ".join((refusal.cause, *causes)), _FIX) if causes else refusal


def claiming(path: Path, passed_over: list[str] | None = None) -> Iterator[tuple[Owner, Reader, str]]:
    """Yield what `installed_readers` has of those that claim a slide; a URL is shown only to those that are `Remote`.

    passed_over: takes the causes of readers that crash.
    """
    head = b"" if isinstance(path, RemotePath) else first_bytes(path)
    for owner, reader, read_by in installed_readers()[0]:
        if isinstance(path, RemotePath) and not implements(reader, Remote):
            continue
        try:
            if owner.call(f"claims({path.name!r})", reader.claims, path, head):
                yield owner, reader, read_by
        except PluginError as error:
            if passed_over is not None:
                passed_over.append(error.cause)


@cache
def installed_readers() -> tuple[tuple[tuple[Owner, Reader, str], ...], tuple[str, ...]]:
    """Return the readers in the order they are asked in, and why others cannot be used.

    Each has its owner and `read_by`: name, digest and maker of its code, "" for a bundled one of the first revision.
    """
    # Cached: finding the plugins takes longer than opening a slide, and what is installed stays the same in a process.
    registry = load_registry(kinds=("reader",))
    readers: list[tuple[Owner, Reader, str]] = []
    unusable: list[str] = []
    for entry in registry.registrations():
        owner = Owner(entry.kind, entry.name, entry.owner)
        try:
            made = owner.call("its constructor", registry.load(entry.kind, f"{entry.distribution}:{entry.name}"))
            owner.check_signatures(made)
            if type(made.rank) is not int:
                raise owner.wrong(f"has the rank {made.rank!r}, not a whole number")
            maker = maker_of(entry, made)
            name = f"{entry.distribution}:{entry.name}"
            readers.append((owner, made, f"{name} {digest(maker.identity)[:16]} {maker}" if maker.identity else ""))
        except PluginError as error:
            unusable.append(error.cause)
    return tuple(sorted(readers, key=lambda one: one[1].rank)), tuple(unusable)
