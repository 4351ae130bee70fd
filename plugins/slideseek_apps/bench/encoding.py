"""Encode the slides of a fold with an encoder that is not trusted."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from slideseek.errors import PluginError, SlideseekError
from slideseek.interfaces import Encoder
from slideseek.types import Code, SlideRecord
from slideseek_apps.bench.grid import CellPlan
from slideseek_apps.bench.opaque_ids import OpaqueIds
from slideseek_apps.bench.plugin_output import coded


@dataclass(slots=True)
class Coded:
    """Codes by slide id, under opaque ids; why a slide has none; wall time of each encoding in seconds."""

    codes: dict[str, Code] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)


def encode_slides(plan: CellPlan, encoder: Encoder, opaque: OpaqueIds, records: Sequence[SlideRecord]) -> Coded:
    """Encode slides one at a time. One that the encoder cannot code (no patches, a site it never saw) has no code: it
    finds nothing and is not found. A code that breaks the encoder's promise is a `PluginError`."""
    owner = plan.variant.owner("encoder", plan.variant.encoder.use)
    result = Coded()
    for record in records:
        bag = opaque.bag(record.id)
        started = time.perf_counter()
        try:
            code = coded(encoder, bag, plan.spec, owner)
        except PluginError as error:
            raise opaque.named(error) from error
        except SlideseekError as error:
            result.failures[record.id] = opaque.named(error).cause
            continue
        result.seconds.append(time.perf_counter() - started)
        result.codes[record.id] = code
    return result
