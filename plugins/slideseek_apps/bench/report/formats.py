"""The formats of a report: choose one by name or suffix, and write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from slideseek.archive.files import write_text
from slideseek.errors import UsageError

if TYPE_CHECKING:
    from slideseek_apps.bench.report.assemble import Report

Format: TypeAlias = Literal["terminal", "markdown", "csv", "latex", "json", "html"]
FORMATS: tuple[Format, ...] = get_args(Format)
SUFFIXES: Mapping[str, Format] = {
    ".html": "html",
    ".md": "markdown",
    ".csv": "csv",
    ".tex": "latex",
    ".json": "json",
    ".txt": "terminal",
}


def silent(_: str) -> None:
    """Ignore the text."""


def render(report: Report, name: Format, width: int = 200, colour: bool = False) -> str:
    """Return the report in one format. width, colour: for the terminal."""
    if name == "html":
        from slideseek_apps.bench.report.page import render_page

        return render_page(report)
    if name == "markdown":
        from slideseek_apps.bench.report.markdown import render_markdown

        return render_markdown(report)
    if name == "latex":
        from slideseek_apps.bench.report.latex import render_latex

        return render_latex(report)
    if name == "csv":
        from slideseek_apps.bench.report.csv_export import render_csv

        return render_csv(report)
    if name == "json":
        from slideseek_apps.bench.report.json_export import render_json

        return render_json(report)
    from slideseek_apps.bench.report.terminal import render_terminal

    return render_terminal(report, width, colour)


def formats_of(target: Path, name: Format | None) -> tuple[Format, ...]:
    """Return the formats to write: all of them for a folder (a target without a suffix), else the one of the file.

    name: the format to use; None takes it from the suffix.
    """
    if name is not None:
        return (name,)
    if _is_folder(target):
        return FORMATS
    chosen = SUFFIXES.get(target.suffix.lower())
    if chosen is None:
        raise UsageError(
            f"{target}: no format for {target.suffix!r}", f"pass --format, or end the name in {', '.join(SUFFIXES)}"
        )
    return (chosen,)


def write_report(
    report: Report, target: Path, names: Sequence[Format], on_note: Callable[[str], None] = silent
) -> list[Path]:
    """Write the report in the formats from `formats_of`, and return the files. on_note: called with what is missing."""
    if _is_folder(target):
        return _write_all(report, target, names, on_note)
    write_text(target, render(report, names[0]))
    return [target]


def _is_folder(target: Path) -> bool:
    return target.is_dir() or not target.suffix


def _write_all(report: Report, folder: Path, names: Sequence[Format], on_note: Callable[[str], None]) -> list[Path]:
    from slideseek_apps.bench.report.figure_files import write_figures

    suffix_of = {name: suffix for suffix, name in SUFFIXES.items()}
    written = []
    for name in names:
        path = folder / f"report{suffix_of[name]}"
        write_text(path, render(report, name))
        written.append(path)
    if "html" in names:
        figures = [figure for part in report.parts for figure in part.figures]
        written += write_figures(figures, folder / "figures", on_note)
    return written


def as_format(name: str | None) -> Format | None:
    """Return the name of a format, which the command line has checked."""
    return cast("Format | None", name)
