"""Run all checks, in the order a person would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from slideseek.plugins import COMPONENT_KINDS, load_registry
from slideseek_apps.doctor.archive_health import look_at_archive
from slideseek_apps.doctor.finding import Finding
from slideseek_apps.doctor.plugin_health import look_at_plugins, look_at_weights
from slideseek_apps.doctor.software_health import look_at_device, look_at_software


def examine(archive: Path | None = None, everything: bool = False) -> Iterator[Finding]:
    """Yield findings about software, device, plugins, weights and an archive if one is given, as they are found.

    everything: read all feature files of the archive, not only a sample.
    """
    registry = load_registry(kinds=(*COMPONENT_KINDS, "reader"))
    yield from look_at_software()
    yield from look_at_device()
    yield from look_at_plugins(registry)
    yield from look_at_weights(registry)
    if archive is not None:
        yield from look_at_archive(archive, everything)
