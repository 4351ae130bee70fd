"""Why a file cannot be read as a slide: the error for each case, with its fix."""

from __future__ import annotations

from pathlib import Path

from slideseek.errors import SlideError, message

FEATURE_SUFFIXES = frozenset((".h5", ".hdf5", ".npz", ".npy", ".pt"))
"""Suffixes (lower case) of feature files. A slide that only has features has one of these in place of a slide file."""


class DeclinedError(SlideError):
    """A reader that leaves a file to the readers after it."""


class GoneError(SlideError):
    """There is nothing at the URL of a slide."""


def cannot_read(path: Path, error: OSError) -> SlideError:
    """Return the error for a file whose bytes cannot be read."""
    return SlideError(f"{path} cannot be read ({message(error)})", "check the disk or the network share")


def not_a_slide(path: Path) -> SlideError:
    """Return the error for a file that is not an image at all."""
    if path.suffix.lower() in (".h5", ".hdf5", ".pt", ".npy", ".npz"):
        fix = "import it with 'slideseek import', or add the slide file itself"
        return SlideError(f"{path.name} contains features, not pixels", fix)
    return SlideError(
        f"{path.name} is not a slide that OpenSlide or Pillow can read",
        "check that it is a slide and not a renamed file of another kind, or copy it again",
    )


def damaged(path: Path, error: BaseException) -> SlideError:
    """Return the error for a file that starts like a slide but cannot be decoded."""
    return SlideError(
        f"{path.name} is damaged, truncated or of an unsupported kind ({message(error)})",
        "copy the file again, or convert it to a pyramidal tiled TIFF",
    )


def first_bytes(path: Path) -> bytes:
    """Return the first 512 bytes of a file, or raise `SlideError` if it cannot be read."""
    try:
        if path.is_dir():
            raise SlideError(f"{path} is a folder, not a slide", "give the slide files in it")
        if path.exists() and not path.is_file():  # opening a pipe would block forever
            raise SlideError(f"{path} is not a regular file", "give a slide file")
        with path.open("rb") as file:
            head = file.read(512)
    except FileNotFoundError as error:
        raise SlideError(f"{path} does not exist", "check the path") from error
    except PermissionError as error:
        raise SlideError(f"{path} cannot be read (permission denied)", "get permission to read it") from error
    except OSError as error:
        raise cannot_read(path, error) from error
    if not head:
        raise SlideError(f"{path.name} is empty (0 bytes)", "copy the file again")
    return head
