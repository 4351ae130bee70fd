"""Choose an index for an engine whose configuration names none: an exact one that takes the encoder's codes."""

from __future__ import annotations

from typing import get_args

from slideseek.config import ComponentConfig, make_component
from slideseek.errors import UsageError
from slideseek.hookspecs import PROJECT
from slideseek.interfaces import Index, KeptElsewhere, StatesExactness, implements
from slideseek.plugins import Registry
from slideseek.types import CodeKind, CodeSpec


def default_index(registry: Registry, spec: CodeSpec, where: str) -> ComponentConfig:
    """Return the index to use for codes of `spec`, with its default options.

    Candidates are the registered indexes on this machine that are exact and do not refuse the codes. Bundled ones come
    first, so that installing a plugin changes no benchmark. Of these the one that takes the fewest forms of code is the
    most specific: `sparse` before `cosine`, which would store the zeros too. The name decides what is left.

    where: the key path for messages, such as `engine.mean.index`.
    """
    found: list[tuple[bool, int, str]] = []
    for entry in registry.registrations("index"):
        try:
            made = make_component(registry, ComponentConfig("index", entry.name, {}), where)
            local = not implements(made, KeptElsewhere)  # nobody has named a server
            if local and implements(made, StatesExactness) and made.exact and not made.refuses(spec):
                found.append((entry.distribution != PROJECT, _forms_taken(made, spec.width), entry.name))
        except Exception:  # it lacks a library, needs options, or crashes: the configuration did not name it
            continue
    if not found:
        raise UsageError(f"{where}: no exact index takes codes of {spec}", "name an index: 'slideseek plugins list'")
    return ComponentConfig("index", min(found)[2], {})


def _forms_taken(index: Index, width: int) -> int:
    """Return how many of the forms a code can have (its kind, one row or a set of rows) the index takes."""
    forms = [CodeSpec(kind, width, many) for kind in get_args(CodeKind) for many in (False, True)]
    return sum(not index.refuses(form) for form in forms)
