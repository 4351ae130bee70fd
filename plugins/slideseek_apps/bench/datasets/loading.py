"""Find the kind of the data at a path, and load it with the adapter that a plugin registered for this kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slideseek.errors import PluginError, SlideseekError, UsageError, one_line
from slideseek.options import from_table
from slideseek.plugins import Registry, output_aside
from slideseek.types import SlideRecord
from slideseek_apps.bench.datasets.adapter import Adapter, RecognisingAdapter
from slideseek_apps.bench.datasets.dataset import Dataset, Source, examine


def adapter_class(registry: Registry, kind: str) -> type[Any]:
    """Import the adapter of a kind; an unknown kind is a `PluginError` that suggests a registered one."""
    try:
        return registry.load("dataset", kind)
    except PluginError as error:
        raise PluginError(f"dataset.kind: {error.cause}", error.fix) from error


def load_dataset(kind: str, options: Mapping[str, Any], base: Path, registry: Registry) -> Dataset:
    """Load a dataset and read every bag once. Relative paths among the options start at `base`."""
    loaded = adapter_class(registry, kind)
    with _blaming(registry, kind, "loading the data"):
        adapter: Adapter = from_table(loaded, options, "dataset", f"dataset {kind!r}", base)
        source: object = adapter.load(registry)
    if not isinstance(source, Source) or not all(isinstance(record, SlideRecord) for record in source.records):
        raise PluginError(f"{_owner(registry, kind)}: load() did not return a Source of slide records", _FIX)
    return examine(source)


def guess_kind(path: Path, registry: Registry, note: Callable[[str], None]) -> str:
    """Return the one kind that recognises the data at `path`; none or several is an error that names them.

    note: called with one line per adapter that could not be asked. The other adapters still decide.
    """
    if not path.exists():
        raise UsageError(f"{path} does not exist", "check the path of the data")
    known = list(dict.fromkeys(entry.name for entry in registry.registrations("dataset")))
    found = []
    for kind in known:
        try:
            loaded = adapter_class(registry, kind)
            with _blaming(registry, kind, f"looking at {path}"):
                if issubclass(loaded, RecognisingAdapter) and loaded.recognises(path):
                    found.append(kind)
        except PluginError as error:
            note(f"{error.cause}: this kind of data was not considered")
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{path} can be read as {' or as '.join(found)}", f"pass --dataset {' or --dataset '.join(found)}"
        )
    hint = f" ({len(registry.broken)} broken: see 'slideseek plugins list')" if registry.broken else ""
    raise UsageError(f"no kind of data recognises {path}", f"pass --dataset, one of {', '.join(known)}{hint}")


_FIX = "update the plugin, or report this to its authors"


@contextmanager
def _blaming(registry: Registry, kind: str, doing: str) -> Iterator[None]:
    """Turn whatever an adapter raises into a `PluginError` that names its plugin. doing: what it was doing."""
    try:
        with output_aside():
            yield
    except SlideseekError:
        raise
    except (Exception, SystemExit) as error:  # an adapter can raise anything; the person needs its one line
        raise PluginError(f"{_owner(registry, kind)} crashed while {doing} ({one_line(error)})", _FIX) from error


def _owner(registry: Registry, kind: str) -> str:
    return f"dataset {kind!r} of {registry.find('dataset', kind).owner}"
