"""Run all checks, in the order a person would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from slideseek.config import CONFIG_NAME, read_config
from slideseek.errors import SlideseekError
from slideseek.plugin_files import plugin_files
from slideseek.plugins import COMPONENT_KINDS, Kind, load_registry
from slideseek_apps.doctor.archive_health import look_at_archive
from slideseek_apps.doctor.finding import Finding
from slideseek_apps.doctor.plugin_health import look_at_plugins, look_at_weights
from slideseek_apps.doctor.software_health import look_at_device, look_at_software


def examine(archive: Path | None = None, everything: bool = False) -> Iterator[Finding]:
    """Yield findings about software, device, plugins, weights and an archive if one is given, as they are found.

    everything: read all feature files of the archive, not only a sample.
    """
    kinds: tuple[Kind, ...] = (*COMPONENT_KINDS, "reader")
    registry = load_registry(kinds=kinds, files=_plugin_files(archive) if archive is not None else ())
    yield from look_at_software()
    yield from look_at_device()
    yield from look_at_plugins(registry)
    yield from look_at_weights(registry)
    if archive is not None:
        yield from look_at_archive(archive, everything)


def _plugin_files(archive: Path) -> list[tuple[str, str, Callable[[], object]]]:
    """Return the plugin files of an archive; a configuration that cannot be read is a finding about the archive."""
    with suppress(SlideseekError):
        return list(plugin_files(archive, read_config(archive / CONFIG_NAME).plugins))
    return []
