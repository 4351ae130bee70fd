"""One stage of one slide: store its result, or the cause of its failure, in one commit."""

from __future__ import annotations

from slideseek.archive.recorded_stages import READ_BY
from slideseek.archive.records import Payload, Stage, StageRecord
from slideseek.archive.slide_table import SlideRow
from slideseek.building.incoming import Facts
from slideseek.building.reporting import BuildSummary, SlideReport
from slideseek.engine import Engine
from slideseek.errors import SlideseekError
from slideseek.hookspecs import PROJECT
from slideseek.indexing.stage_cache import StageCache
from slideseek.plugins import ComponentKind

KIND_OF_STAGE: dict[Stage, ComponentKind] = {"select": "selector", "featurize": "featurizer", "encode": "encoder"}
"""The component whose result a stage stores."""

NO_TISSUE = (
    "no patch to select: no tissue found, or no patch with enough of it",
    "look at it with 'slideseek inspect'; try a smaller 'size', a lower 'min_tissue' or another 'tissue'",
)


def _no_tissue(facts: Facts | None, tissue_um2: float) -> tuple[str, str]:
    """Return why nothing was selected; if regions could not be decoded the file is at fault, not the tissue."""
    if tissue_um2 and not (facts and facts.unreadable):
        found = f"no patch to select: {tissue_um2:,.0f} µm² of tissue found, but no patch with enough of it"
        return found, NO_TISSUE[1]
    if facts and facts.unreadable:
        cause = f"no tissue found, and {facts.unreadable} region(s) of the slide cannot be decoded"
        return cause, "the file is damaged: copy the slide again from its source"
    return NO_TISSUE


class Attempts:
    """Store the outcome of a stage and return the slide's report. commit: false for a process that only reports."""

    def __init__(self, stages: StageCache, summary: BuildSummary, commit: bool = True) -> None:
        self._stages = stages
        self._commit = commit
        self._summary = summary

    def keep(
        self,
        engine: Engine,
        stage: Stage,
        slide: SlideRow,
        payload: Payload,
        seconds: float,
        facts: Facts | None = None,
    ) -> SlideReport:
        """Store a result; a selection without patches is stored as such, with a fix."""
        items = int(payload.meta["rows"] if payload.kind == "code" else payload.meta["n"])
        cause, fix = ("", "") if items else _no_tissue(facts, float(payload.meta.get("tissue_um2", 0.0)))
        if stage == "select":
            for area in self._summary.tissue:
                self._summary.tissue[area] += float(payload.meta.get(area, 0.0))
        self._summary.stage_seconds.setdefault(stage, []).append(seconds)
        root, made_by = self._stages.archive.root, engine.resolved.makers.get(KIND_OF_STAGE[stage], "")
        plugin = facts.read_by if facts and not facts.read_by.startswith(f"{PROJECT}:") else ""  # see `_taken_over`
        record = StageRecord(
            slide.id,
            stage,
            self._stages.settings_digest(engine, stage),
            payload.key,
            "empty" if cause else "done",
            cause,
            fix,
            notes=facts.notes if facts else (),
            seconds=seconds,
            items=items,
            bytes=(root / payload.file).stat().st_size if payload.file else len(payload.data or b""),
            unreadable=facts.unreadable if facts else 0,
            filled=facts.filled if facts else 0,
            made_by=READ_BY.join(filter(None, (made_by, plugin))),
        )
        if self._commit:
            self._stages.keep(record, payload)
        return SlideReport(slide.id, "failed" if cause else "ok", cause, fix, record.notes)

    def fail(
        self, engine: Engine, stage: Stage, slide: SlideRow, error: SlideseekError, seconds: float = 0.0
    ) -> SlideReport:
        """Store the cause of a failure and its fix."""
        if self._commit:
            settings, key = self._stages.settings_digest(engine, stage), self._stages.key(engine, stage, slide)
            record = StageRecord(slide.id, stage, settings, key, "failed", error.cause, error.fix, seconds=seconds)
            self._stages.keep(record)
        return SlideReport(slide.id, "failed", error.cause, error.fix)
