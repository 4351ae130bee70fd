"""A report as one self-contained HTML page."""

from __future__ import annotations

from functools import cache
from importlib import resources

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from slideseek_apps.bench.report.assemble import Report


def render_page(report: Report) -> str:
    """Return the page: tables and figures, light and dark, printable, without scripts or external references."""
    return template("report.html.jinja").render(report=report, css=style())


def style() -> Markup:
    """Return the style sheet of pages. It is part of this package, so it is not escaped."""
    return Markup(resource("page.css"))


@cache
def template(name: str) -> Template:
    """Return the template of a page; it escapes every value."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.globals["zip"] = zip
    return environment.from_string(resource(name))


def resource(name: str) -> str:
    """Return the text of a file beside this module."""
    return resources.files("slideseek_apps.bench.report").joinpath(name).read_text(encoding="utf-8")
