"""Assemble a search report: the query and its hits with pictures, metadata, votes and evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slideseek import __version__
from slideseek.archive.archive import Archive
from slideseek.digests import canonical_json
from slideseek.engine import Engine
from slideseek.errors import SlideseekError
from slideseek.searching.evidence import strongest
from slideseek.searching.queries import Query
from slideseek.searching.searcher import Answer, Found
from slideseek.searching.votes import FIELD_NAMES, Vote
from slideseek_apps.reports.explained_match import Explained, Side, patch_pictures
from slideseek_apps.reports.heat_colours import HeatScale
from slideseek_apps.reports.report_page import EvidencePanel, HitPanel, Legend, Match, QuerySection, Report, TextTable
from slideseek_apps.reports.sharing import IDENTIFIED, Sharing
from slideseek_apps.reports.slide_panels import PATCH_SIDE, Panels

MATCHES_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Reported:
    """One answer to show.

    query: set for a query that is not a slide of the archive. evidence: by slide id, why hits were found. asked: one
    line with the date, the user and the filters.
    """

    answer: Answer
    query: Query | None = None
    evidence: Mapping[str, Explained] = field(default_factory=dict)
    asked: str = ""


def search_report(
    archive: Archive,
    engines: Sequence[Engine],
    answers: Sequence[Answer | Reported],
    title: str,
    tables: Sequence[TextTable] = (),
    sharing: Sharing = IDENTIFIED,
) -> Report:
    """Make the report of some answers. A slide whose file is missing is shown without pictures.

    sharing: how slides are named. A shareable page names neither the archive's folder nor a path in its settings.
    """
    by_name = {engine.name: engine for engine in engines}
    panels = Panels(archive, sharing)
    reported = [one if isinstance(one, Reported) else Reported(one) for one in answers]
    sections = [_section(one, by_name[one.answer.engine], panels, sharing) for one in reported]
    facts = {"slides": str(len(archive.catalog.slides)), "slideseek": __version__}
    if not sharing.shareable:
        facts = {"archive": archive.root.name, **facts}
    for engine in engines:
        facts[f"engine {engine.name}"] = "; ".join(
            f"{kind}: {canonical_json(sharing.settings(chosen))}" for kind, chosen in engine.resolved.settings.items()
        )
    where = "the archive; ids are pseudonyms" if sharing.shareable else archive.root.name
    return Report(title, f"Nearest slides in {where}", facts, tables, sections)


def _section(reported: Reported, engine: Engine, panels: Panels, sharing: Sharing) -> QuerySection:
    answer, why = reported.answer, list(reported.evidence.values())
    heat = HeatScale.over(*(one.hit.parts for one in why))  # one for all hits: a colour means the same on each
    return QuerySection(
        query=panels.query(reported.query) if reported.query else panels.stored(answer.query, engine),
        engine=answer.engine,
        mode=answer.mode,
        votes={FIELD_NAMES[name]: _vote(vote) for name, vote in answer.votes.items()},
        hits=[_hit(reported, found, engine, panels, heat) for found in answer.found],
        notes=sharing.notes(answer.notes),
        milliseconds=answer.milliseconds,
        asked=reported.asked,
        legend=Legend.of(why[0].evidence.kind, heat) if why else None,
    )


def _vote(vote: Vote) -> str:
    return f"{vote.value} ({vote.agreeing} of {vote.hits}, confidence {vote.confidence:.2f})"


def _hit(reported: Reported, found: Found, engine: Engine, panels: Panels, heat: HeatScale) -> HitPanel:
    why = reported.evidence.get(found.hit.slide_id)
    agrees = reported.answer.agrees(found)
    panel = panels.heated(found.record, why.hit, heat) if why else panels.stored(found.record, engine)
    return HitPanel(found.rank, found.hit.distance, agrees, panel, _evidence(why) if why else None)


def _evidence(found: Explained) -> EvidencePanel | None:
    """Return the strongest matches as pictures; None if the pixels of a slide cannot be read."""
    evidence = found.evidence
    try:
        if evidence.kind == "pairs":
            pairs = evidence.pairs[:MATCHES_SHOWN]
            drawn = found.query in found.sides
            queries = patch_pictures(found.query, [pair.query for pair in pairs], PATCH_SIDE) if drawn else {}
            hits = patch_pictures(found.hit, [pair.hit for pair in pairs], PATCH_SIDE)
            pictures = [[*([queries[pair.query].pixels] if drawn else []), hits[pair.hit].pixels] for pair in pairs]
            matches = [Match(shown, f"distance {pair.distance:.6g}") for shown, pair in zip(pictures, pairs)]
            return EvidencePanel(
                f"Why: {len(evidence.pairs)} pairs of patches, distance {evidence.value:.6g}",
                [("Nearest pairs: query patch, hit patch" if drawn else "The patch most like the text", matches)],
            )
        removed = evidence.kind == "removals"
        what = "without which the distance grows most" if removed else "with the largest contributions"
        groups = [
            (f"{side.name.capitalize()} patches {what}, ranked for this slide alone", _strongest(found, side))
            for side in found.sides
        ]
        return EvidencePanel(
            f"Why: the distance is {evidence.value:.4f}; shown is by how much it grows without a patch"
            if removed
            else f"Why: the contributions of each slide's patches add up to a similarity of {evidence.value:.4f}",
            groups,
        )
    except SlideseekError:
        return None


def _strongest(found: Explained, side: Side) -> list[Match]:
    numbers = strongest(side.parts, MATCHES_SHOWN)
    pictures = patch_pictures(side, numbers, PATCH_SIDE)
    parts = [float(side.parts[number]) for number in numbers]
    return [
        Match([pictures[number].pixels], f"{part:+z.4f} {found.evidence.share(part)}".strip())
        for number, part in zip(numbers, parts)
    ]
