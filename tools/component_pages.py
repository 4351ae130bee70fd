"""Write docs/reference/components.md from the registered components: `python tools/component_pages.py [--check]`."""

from __future__ import annotations

import sys
from pathlib import Path

from slideseek.plugins import COMPONENT_KINDS, HOOKS, Kind, load_registry
from slideseek_apps.testing.option_descriptions import describe, describe_options

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "components.md"
HEAD = """# Components

What comes with slideseek, and every option with its type and default. This page is written by
`python tools/component_pages.py` from the components themselves.

An option marked `*` can also be given with a query: `slideseek search QUERY --set NAME=VALUE`.
"""


def render() -> str:
    """Return the page."""
    kinds: tuple[Kind, ...] = (*COMPONENT_KINDS, "executor")
    registry = load_registry(disabled=(), kinds=kinds)
    parts = [HEAD]
    for kind in kinds:
        parts.append(f"\n## {HOOKS[kind].removeprefix('register_').capitalize()}\n")
        for entry in registry.registrations(kind):
            if entry.distribution != "slideseek":
                continue
            loaded = registry.load(kind, entry.name)
            parts.append(f"\n### `{entry.name}`\n\n{describe(loaded)}\n")
            rows = []
            for option in describe_options(loaded):
                default = f"`{option.default}`" if option.default else "required" if option.required else "not set"
                rows.append(f"| `{option.name}`{' *' if option.at_query else ''} | {option.type} | {default} |")
            if rows:
                parts.append("\n| option | type | default |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "".join(parts)


def main() -> int:
    """Write the page, or with --check say whether it is up to date."""
    page = render()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text(encoding="utf-8") == page else 1
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
