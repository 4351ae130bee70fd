"""The exception type users see, and the few subclasses that code distinguishes."""

import errno
from collections.abc import Mapping
from pathlib import Path
from traceback import walk_tb

DISK_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ESTALE, errno.ETIMEDOUT)
"""Failures of a disk or a network share: neither a slide nor a plugin is to blame."""


def one_line(error: BaseException, limit: int = 300) -> str:
    """Format any exception as one line: its type and its message, cut at `limit` characters."""
    name, text = type(error).__name__, message(error, limit)
    return text if text == name else f"{name}: {text}"


def message(error: BaseException, limit: int = 160) -> str:
    """Format the message of a library's error as one line, cut at `limit` characters; its type if it is empty."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def raised_at(error: BaseException) -> str:
    """Return the deepest line of the plugin that raised an error, ` at encoder.py line 61`; "" if none did."""
    by_package: dict[str, str] = {}
    for frame, line in walk_tb(error.__traceback__):
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        by_package[package] = f" at {Path(frame.f_code.co_filename).name} line {line}"
    # The first package that slideseek called: what that one calls itself, such as numpy, is seldom to blame.
    return next((place for package, place in by_package.items() if package not in ("slideseek", "slideseek_apps")), "")


class SlideseekError(Exception):
    """An error with its cause and its fix.

    `cause` states the subject, the actual value and what is allowed; `fix` is the next step. The command line catches
    this type in one place, prints both and exits with `exit_code`; any other exception is a crash.
    """

    exit_code = 1

    def __init__(self, cause: str, fix: str = "") -> None:
        super().__init__(f"{cause}: {fix}" if fix else cause)
        self.cause = cause
        self.fix = fix


class UsageError(SlideseekError):
    """A wrong argument, option or configuration value: nothing was started."""

    exit_code = 2


class ParameterError(UsageError):
    """A search parameter that is missing or invalid.

    parameter: its name in `slideseek.searching.request.Request`. The cause does not mention options of any front end;
    each front end explains how to pass the parameter (`in_words_of`). `fix` lists alternatives.
    """

    def __init__(self, parameter: str, cause: str, fix: str = "") -> None:
        super().__init__(cause, fix)
        self.parameter = parameter

    def in_words_of(self, how_to_give: Mapping[str, str]) -> UsageError:
        """Return the error for one front end. how_to_give: by parameter, how to pass it there."""
        ways = [way for way in (how_to_give.get(self.parameter, ""), self.fix) if way]
        return UsageError(self.cause, ", or ".join(ways))


class PluginError(UsageError):
    """A plugin that cannot be loaded, is registered twice, or violates its interface."""


class SlideError(SlideseekError):
    """One slide that cannot be read or used; the run goes on without it."""


class RegionError(SlideError):
    """A region of a slide that cannot be decoded; the rest of the slide can."""


class EmptyBagError(SlideseekError):
    """An encoder was given a bag without patches."""

    def __init__(self, slide_id: str) -> None:
        super().__init__(f"slide {slide_id!r} has no patches to encode", "select patches first, or exclude the slide")


class NotFittedError(SlideseekError):
    """A trainable encoder was used before it was fitted or loaded."""

    def __init__(self, encoder: str) -> None:
        super().__init__(f"encoder {encoder!r} is not fitted", "call fit() or load() first")


class NotAttributableError(SlideseekError):
    """An encoder made of others cannot split a similarity over patches because one of them cannot."""


class BusyError(SlideseekError):
    """Another process is writing to the archive."""


class UnavailableError(SlideseekError):
    """A server that cannot be reached or refuses: an error, never a shorter answer."""


class DamagedError(SlideseekError):
    """A stored payload is missing, or does not match the SHA-256 recorded for it."""
