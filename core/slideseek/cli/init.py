"""`slideseek init`: make an archive."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=".")
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A slideseek.toml to start from instead of the default one.",
)
@click.option(
    "--preset",
    type=click.Choice(["default", "paper"]),
    help="'paper': patches of 1000 px at 20x, 15 % of them, as published.",
)
def command(folder: Path, config_file: Path | None, preset: str | None) -> None:
    """Make an archive in FOLDER (default: this folder): a configuration and an empty catalogue."""
    from slideseek.api import create_archive
    from slideseek.config import CONFIG_NAME, MAX_CHARACTERS, default_config
    from slideseek.errors import UsageError

    if preset and config_file is not None:
        raise UsageError("--preset and --config both name a configuration", "give one of them")
    text = default_config(preset) if preset else None
    if config_file is not None:
        try:
            with config_file.open(encoding="utf-8") as file:
                text = file.read(MAX_CHARACTERS + 1)  # one more than is allowed, and it is refused
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {config_file} ({error})", "give a TOML file in UTF-8") from error
    create_archive(folder, text, str(config_file or CONFIG_NAME)).close()
    click.echo(f"made the archive {folder}")
    click.echo(f"next: slideseek add SLIDES... -a {folder}   (engines are set in {folder / CONFIG_NAME})")
