"""`slideseek plugins`: list installed plugins, show their options, check them, and create new ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import click

from slideseek.cli.options import json_option
from slideseek.cli.output import print_json, print_table
from slideseek.did_you_mean import did_you_mean
from slideseek.errors import UsageError
from slideseek.plugins import COMPONENT_KINDS, KINDS, ComponentKind, Kind, Registration, Registry, load_registry

CHECKED: tuple[Kind, ...] = (*COMPONENT_KINDS, "reader")
"""Kinds that can be created and checked."""
SHOWN: tuple[Kind, ...] = (*COMPONENT_KINDS, "reader", "executor", "dataset")
"""Kinds whose options can be shown: the dataclasses."""


archive_option = click.option(
    "-a", "--archive", "folder", type=click.Path(path_type=Path), help="Also use the plugin files of this archive."
)


def _registry(folder: Path | None, kinds: Sequence[Kind]) -> Registry:
    """Return what the installed plugins provide, and the plugin files of an archive if one is given."""
    if folder is None:
        return load_registry(kinds=kinds)
    from slideseek.archive.archive import Archive
    from slideseek.plugin_files import plugin_files

    with Archive(folder) as archive:
        return load_registry(kinds=kinds, files=plugin_files(archive.root, archive.config.plugins))


@click.group()
def command() -> None:
    """List, show, check and create plugins."""


@command.command("list")
@click.option("--kind", type=click.Choice(KINDS), help="Only this kind.")
@archive_option
@json_option
def list_plugins(kind: str | None, folder: Path | None, as_json: bool) -> None:
    """List what the installed plugins provide: components, readers, executors, commands and kinds of datasets."""
    registry = _registry(folder, KINDS)
    entries = registry.registrations(cast("Kind | None", kind))
    if as_json:
        print_json(
            {
                "components": [dataclasses.asdict(entry) for entry in entries],
                "broken": [dataclasses.asdict(entry) for entry in registry.broken],
                "disabled": list(registry.disabled),
            }
        )
        return
    print_table(("kind", "name", "what it does", "from"), [[e.kind, e.name, e.summary, e.owner] for e in entries])
    for broken in registry.broken:
        click.echo(f"broken: {broken.plugin} of {broken.distribution} {broken.version}: {broken.reason}")
    for name in registry.disabled:
        click.echo(f"disabled: {name}")


@command.command("show")
@click.argument("name")
@click.option("--kind", type=click.Choice(SHOWN), help="The kind, where two kinds share a name.")
@archive_option
@json_option
def show_plugin(name: str, kind: str | None, folder: Path | None, as_json: bool) -> None:
    """Show a component: what it does, where it comes from, and its options with types and defaults."""
    from slideseek_apps.testing.option_descriptions import describe, describe_options

    registry = _registry(folder, SHOWN)
    entry = _find(registry, name, kind, SHOWN)
    loaded = registry.load(entry.kind, name)
    options = describe_options(loaded)
    text = describe(loaded)
    if as_json:
        print_json(
            {**dataclasses.asdict(entry), "description": text, "options": [dataclasses.asdict(o) for o in options]}
        )
        return
    click.echo(f"{entry.kind} {entry.name}, from {entry.owner} ({entry.target})\n\n{text}\n")
    if options:
        rows = [[o.name, o.type, "(required)" if o.required else o.default or "(not set)"] for o in options]
        print_table(("option", "value", "default"), rows)
        if at_query := [o.name for o in options if o.at_query]:
            click.echo(f"Also with a query (search --set NAME=VALUE): {', '.join(at_query)}")
    else:
        click.echo("It has no options.")


@command.command("check")
@click.argument("name")
@click.option("--kind", type=click.Choice(CHECKED), help="The kind, where two kinds share a name.")
@click.option("--set", "options", multiple=True, metavar="OPTION=VALUE", help="An option, in TOML (may be repeated).")
@click.option(
    "--width", type=click.IntRange(min=1), help="Features per patch, for an encoder that needs a certain width."
)
@click.option(
    "--featurizer", "made_by", metavar="NAME", help="Encode the features of this featurizer instead of random ones."
)
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    help="A small slide that a reader reads; without it, nothing is opened.",
)
@archive_option
@json_option
def check_plugin(
    name: str,
    kind: str | None,
    options: tuple[str, ...],
    width: int | None,
    made_by: str | None,
    file: Path | None,
    folder: Path | None,
    as_json: bool,
) -> int:
    """Run the conformance checks on a component or a reader; the exit code is 3 if any fails."""
    import tomllib

    from slideseek.cli import EXIT_FAILED_SLIDES
    from slideseek.config import ComponentConfig, make_component
    from slideseek.interfaces import NeedsFeaturizer, implements
    from slideseek_apps.testing import encoder_checks, reader_checks, reranker_checks, run_checks

    registry = _registry(folder, CHECKED)
    entry = _find(registry, name, kind, CHECKED)
    component = cast("ComponentKind", entry.kind)
    try:
        given: dict[str, Any] = tomllib.loads("\n".join(options))
    except tomllib.TOMLDecodeError as error:
        fix = "write OPTION=VALUE as in TOML, such as percent=20 or colour='histogram'"
        raise UsageError(f"--set: {error}", fix) from error
    config = ComponentConfig(component, name, given)
    try:
        made = make_component(registry, config, entry.name)  # a wrong option is one error, not twenty failed checks
    except UsageError as error:
        raise UsageError(error.cause, error.fix.replace(" to the table", " with --set")) from error
    needed = tuple(made.featurizers) if implements(made, NeedsFeaturizer) else ()
    featurizer = make_component(registry, ComponentConfig("featurizer", made_by, {}), made_by) if made_by else None
    if featurizer is not None and needed and made_by not in needed:
        raise UsageError(f"{name!r} does not encode the features of {made_by!r}", f"pass --featurizer {needed[0]}")
    checks = None
    if component == "encoder":
        checks = encoder_checks(**({"widths": (width,)} if width else {}), featurizer=featurizer)
    elif component == "reranker":
        checks = reranker_checks(**({"width": width} if width else {}), featurizer=featurizer)
    elif entry.kind == "reader":
        checks = reader_checks(file)
    if file is not None and not file.is_file():
        raise UsageError(f"--file: {file} is not a file", "give a slide that the reader reads")
    if file is not None and entry.kind != "reader":
        raise UsageError(f"--file is for readers, not for the {component} {name!r}")
    if (width or made_by) and component not in ("encoder", "reranker"):
        raise UsageError(f"--width and --featurizer are for encoders and rerankers, not for the {component} {name!r}")
    results = run_checks(component, lambda: make_component(registry, config, entry.name), checks)
    failed = [result for result in results if not result.passed]
    if as_json:
        print_json({"kind": entry.kind, "name": entry.name, "checks": [dataclasses.asdict(r) for r in results]})
    else:
        first: dict[str, str] = {}  # one mistake may fail many checks: its message is printed once
        for result in results:
            click.echo(f"{'ok    ' if result.passed else 'FAILED'}  {result.name}: {result.summary}")
            if not result.passed:
                before = first.setdefault(result.message.removeprefix(f"expected: {result.summary} "), result.name)
                click.echo(f"        {result.message if before == result.name else f'as in {before}'}")
        click.echo(f"{entry.kind} {entry.name}: {len(results) - len(failed)} of {len(results)} checks passed")
        if failed and needed and featurizer is None:
            click.echo(f"it needs the features of {' or '.join(needed)}: pass --featurizer {needed[0]}, or --width")
        if entry.kind == "reader" and file is None:
            click.echo("nothing was opened: pass --file SLIDE to check what it reads")
    return EXIT_FAILED_SLIDES if failed else 0


@command.command("new")
@click.argument("name")
@click.option("--kind", type=click.Choice(CHECKED), default="encoder", show_default=True, help="Kind to create.")
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path), default=".", show_default=True, help="Where to put its folder."
)
def new_plugin(name: str, kind: str, folder: Path) -> None:
    """Create a working plugin distribution: a package, one component, and tests that run the conformance checks."""
    from slideseek_apps.testing.scaffold import create

    made = create(folder, name, cast("Kind", kind))
    click.echo(f"wrote {made}")
    click.echo(f"next: pip install -e '{made}[test]' && python -m pytest {made} && slideseek plugins check {name}")


def _find(registry: Registry, name: str, kind: str | None, among: Sequence[Kind]) -> Registration:
    kinds = [k for k in among if kind in (None, k)]
    distribution, _, plain = name.rpartition(":")
    found = [
        k
        for k in kinds
        if any(e.name == plain and distribution in ("", e.distribution) for e in registry.registrations(k))
    ]
    if len(found) > 1:
        raise UsageError(f"{name!r} is the name of a {' and of a '.join(found)}", "pass --kind")
    if found:
        return registry.find(found[0], name)
    others = [e.kind for e in load_registry(kinds=KINDS).registrations() if e.name == name and e.kind not in kinds]
    if others:
        raise UsageError(f"{name!r} is a {others[0]}, not a {' or '.join(kinds)}", "see 'slideseek plugins list'")
    broken = "; ".join(f"{one.plugin} of {one.distribution} {one.version}: {one.reason}" for one in registry.broken)
    raise UsageError(
        f"no component named {name!r}" + (f" ({broken})" if broken else ""),
        did_you_mean(name, {e.name for k in kinds for e in registry.registrations(k)}, "see 'slideseek plugins list'"),
    )
