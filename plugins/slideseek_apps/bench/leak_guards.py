"""Guards against leaks: find and name what would make a result too good to be true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from slideseek.boundary import FIX_PLUGIN, Owner, same_code
from slideseek.errors import PluginError, SlideseekError
from slideseek.interfaces import Encoder
from slideseek.types import Bag, Code, CodeSpec, SlideRecord
from slideseek_apps.bench.datasets.dataset import Dataset
from slideseek_apps.bench.folds import Fold
from slideseek_apps.bench.opaque_ids import OpaqueIds
from slideseek_apps.bench.protocol import Protocol

PROBES = 4
"""Number of slides an encoder is probed with."""


@dataclass(frozen=True, slots=True)
class Guards:
    """The table `[guards]`. All guards are on unless a configuration switches one off, and results record that.

    patients: no patient in both training and test. duplicates: no slide under the ids of two patients. labels: no
    encoder whose codes depend on the slide id.
    """

    patients: bool = True
    duplicates: bool = True
    labels: bool = True

    @property
    def off(self) -> list[str]:
        """Names of the guards that are switched off."""
        return [name for name in ("patients", "duplicates", "labels") if not getattr(self, name)]


class LeakError(SlideseekError):
    """A way in which labels could reach an encoder."""


def check_duplicates(dataset: Dataset) -> None:
    """Raise `LeakError` for two slides of different patients with the same file content or the same features.

    One would find the other, and leaving the patient out would not prevent it.
    """
    for what, names in (("byte-identical", dataset.identities), ("identical in their features", dataset.features)):
        patient = {record.id: record.patient for record in dataset.records}
        first: dict[str, str] = {}
        for slide_id in sorted(names):
            other = first.setdefault(names[slide_id], slide_id)
            if patient[other] != patient[slide_id]:
                raise LeakError(
                    f"slides {other!r} of patient {patient[other]!r} and {slide_id!r} of patient"
                    f" {patient[slide_id]!r} are {what}: one would find the other",
                    "give both the same patient, or leave one out",
                )


def check_sides(records: Sequence[SlideRecord], fold: Fold, protocol: Protocol) -> None:
    """Raise `LeakError` for a slide, a patient or a left-out centre that is in both training and test."""
    kinds: list[tuple[str, Callable[[SlideRecord], str]]] = [
        ("slide", lambda record: record.id),
        ("patient", lambda record: record.patient),
    ]
    if protocol.leave_out == "center":
        kinds.append(("centre", lambda record: record.center))
    for what, name_of in kinds:
        learnt: dict[str, str] = {}
        for i in fold.train:
            learnt.setdefault(name_of(records[i]), records[i].id)
        for i in fold.test:
            if (name := name_of(records[i])) in learnt:
                raise LeakError(
                    f"protocol {protocol.name!r}: {what} {name!r} is in training and in test"
                    f" (slides {learnt[name]!r} and {records[i].id!r})",
                    f"put all slides of a {what} on one side of the split",
                )


class LabelProbe:
    """Find an encoder whose codes depend on the slide id, and so may depend on the label.

    The encoder gets a bag under an opaque id, under the slide's own id, and under the id of a slide with another label.
    A code depends on the features (and the site) alone, so all three must be equal. The code must be equal again at the
    end of the fold: an encoder must not learn while it encodes.
    """

    def __init__(
        self,
        encoder: Encoder,
        spec: CodeSpec,
        owner: Owner,
        opaque: OpaqueIds,
        records: Sequence[SlideRecord],
        queries: Sequence[int],
    ) -> None:
        self._encoder, self._spec, self._owner, self._opaque = encoder, spec, owner, opaque
        self._chosen = [(records[i], _unlike(records, i)) for i in queries[:PROBES]]
        self._codes: dict[str, Code] = {}

    def check_ids_ignored(self) -> None:
        """Raise `LeakError` when a code depends on the id of its slide."""
        for record, other in self._chosen:
            bag = self._opaque.bag(record.id)
            plain = self._code(bag)
            if plain is None:
                continue
            self._codes[record.id] = plain
            for alias in (record, other):
                if not _equal(plain, self._code(replace(bag, slide_id=alias.id))):
                    raise LeakError(
                        f"{self._owner} reads labels: slide {record.id!r} gets another code under the id"
                        f" {alias.id!r}, which is {alias.label or alias.site!r}",
                        f"a code must depend on the features alone; {FIX_PLUGIN}",
                    )

    def check_state_unchanged(self) -> None:
        """Raise `LeakError` when encoding other slides has changed the code of a slide."""
        for slide_id, before in self._codes.items():
            if not _equal(before, self._code(self._opaque.bag(slide_id))):
                raise LeakError(
                    f"{self._owner} learns from test slides: the code of slide {slide_id!r} changed while others"
                    " were encoded",
                    f"encode() must not change the encoder; {FIX_PLUGIN}",
                )

    def _code(self, bag: Bag) -> Code | None:
        try:
            code = self._owner.call(f"encode() for {bag.slide_id!r}", self._encoder.encode, bag)
            return self._owner.check_code(code, bag, self._spec)
        except PluginError as error:
            raise self._opaque.with_real_ids(error) from error
        except SlideseekError:  # a slide that cannot be encoded is counted elsewhere
            return None


def _unlike(records: Sequence[SlideRecord], i: int) -> SlideRecord:
    """Return the next slide with another label or site; the slide itself when there is none."""
    around = [*records[i + 1 :], *records[:i]]
    own = records[i]
    return next((r for r in around if (r.label, r.site) != (own.label, own.site)), own)


def _equal(one: Code, other: Code | None) -> bool:
    return other is not None and same_code(one, other)
