"""A leaderboard: the variants of several results folders in one table that can be sorted and filtered."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from markupsafe import Markup

from slideseek.errors import SlideseekError
from slideseek.types import Float64, Int64
from slideseek_apps.bench import class_sums
from slideseek_apps.bench.class_sums import Statistic, macro, weighted
from slideseek_apps.bench.rank_stability import Stability
from slideseek_apps.bench.records import EncoderCard
from slideseek_apps.bench.report.page import resource, style, template
from slideseek_apps.bench.report.ranks import stability_of
from slideseek_apps.bench.report.retrieval_tables import SectionTables
from slideseek_apps.bench.report.sections import CODE_SIZE, SEARCH_TIME, Section, VariantResults, make_sections
from slideseek_apps.bench.report.settings import ReportSettings
from slideseek_apps.bench.report.table import Number
from slideseek_apps.bench.report.training_table import epochs_of, folds_of
from slideseek_apps.bench.results import Results

ALL_SITES = "all sites"
_MARK = "\0"


@dataclass(frozen=True, slots=True)
class Standing:
    """One row: a variant under one protocol, over all sites or in one.

    dataset: name and the start of its fingerprint, since different slides may have the same name. source: the title of
    the results it comes from. first: probability in percent to be first among the variants of the same dataset and
    protocol. top: whether it is in the top group. card: of its engine, where it was submitted. rank: its place by macro
    F1 as it is shown; engines with the same value share it. trial: of a run shortened with `--quick`. training: in
    words.
    """

    engine: str
    source: str
    dataset: str
    protocol: str
    site: str
    slides: int
    seeds: int
    macro_f1: Number
    weighted_f1: Number
    accuracy: Number
    milliseconds: Number
    bytes_per_slide: Number
    first: Number = field(default_factory=lambda: Number(None))
    top: bool = False
    card: EncoderCard | None = None
    rank: int = 0
    trial: bool = False
    training: str = ""

    @property
    def words(self) -> str:
        """The text that the page's filter searches."""
        return f"{self.engine} {self.source} {self.dataset} {self.protocol} {self.site}".lower()


def make_standings(results: Sequence[Results], settings: ReportSettings) -> list[Standing]:
    """Return the standings of all retrieval cells, best macro F1 first within dataset, protocol and site."""
    # Variants of all results share a section, so that they are compared on the same draws; a name may occur in several.
    cells = [
        replace(cell, name=f"{number}{_MARK}{cell.name}")
        for number, result in enumerate(results)
        for cell in result.cells
        if not cell.control
    ]
    found = [standing for section in make_sections(cells) for standing in _of_section(results, section, settings)]
    if not found:
        raise SlideseekError("there is nothing to rank: no retrieval cells", "name folders with retrieval results")
    places = {name: i for i, name in enumerate(dict.fromkeys((s.dataset, s.protocol) for s in found))}
    ordered = sorted(
        found,
        key=lambda s: (places[s.dataset, s.protocol], s.site != ALL_SITES, s.site, -(s.macro_f1.value or 0.0)),
    )
    return _ranked(ordered)


def _ranked(ordered: Sequence[Standing]) -> list[Standing]:
    """Give standings their ranks within one dataset, protocol and site: 1, 2, 2, 4."""
    ranked: list[Standing] = []
    place = 0
    for one in ordered:
        group = one.dataset, one.protocol, one.site
        before = ranked[-1] if ranked and (ranked[-1].dataset, ranked[-1].protocol, ranked[-1].site) == group else None
        place = place + 1 if before else 1
        tied = before is not None and before.macro_f1.text == one.macro_f1.text
        ranked.append(replace(one, rank=before.rank if before is not None and tied else place))
    return ranked


def render_leaderboard(title: str, standings: Sequence[Standing], settings: ReportSettings) -> str:
    """Return the page: one table and a small inline script that sorts and filters it."""
    script = resource("leaderboard.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return template("leaderboard.html.jinja").render(
        title=title,
        standings=standings,
        datasets=list(dict.fromkeys(s.dataset for s in standings)),
        protocols=list(dict.fromkeys(s.protocol for s in standings)),
        sites=sorted({s.site for s in standings}, key=lambda site: (site != ALL_SITES, site)),
        conventions=f"majority-{settings.k}, tie {settings.tie}",
        css=style(),
        script=Markup(script),
        digest=digest,
        trial=any(s.trial for s in standings),
    )


def _of_section(results: Sequence[Results], section: Section, settings: ReportSettings) -> list[Standing]:
    tables = SectionTables(section, settings)
    places_of = stability_of(tables, section.variants)
    sites: dict[str, list[int]] = {ALL_SITES: list(range(len(section.classes)))}
    for i, (site, label) in enumerate(section.classes):
        sites.setdefault(site or label, []).append(i)
    if not section.by_site and section.cells[0].protocol.target != "site":
        sites = {ALL_SITES: sites[ALL_SITES]}
    return [
        _standing(results, section, tables, variant, site, np.array(places), places_of.get(variant.name))
        for variant in section.variants
        for site, places in sites.items()
    ]


def _standing(
    results: Sequence[Results],
    section: Section,
    tables: SectionTables,
    variant: VariantResults,
    site: str,
    places: Int64,
    stability: Stability | None,
) -> Standing:
    cell = section.cells[0]
    number_of, _, name = variant.name.partition(_MARK)
    result = results[int(number_of)]
    overall = stability if site == ALL_SITES else None
    estimates = tables.estimates[variant.name]

    def number(statistic: Statistic) -> Number:
        def within(sums: Float64) -> Float64:
            return statistic(sums[..., places, :])

        return estimates.number(*tables.votes(), within)

    return Standing(
        name,
        result.title,
        " ".join(part for part in (cell.dataset.name, cell.dataset.fingerprint[:8]) if part),
        cell.protocol.title,
        site,
        round(float(np.mean([lists.slides[places].sum() for lists in variant.lists]))),
        len(variant.seeds),
        number(macro(class_sums.f1)),
        number(weighted(class_sums.f1)),
        number(class_sums.accuracy),
        variant.cost(SEARCH_TIME.of),
        variant.cost(CODE_SIZE.of),
        Number(100 * overall.first if overall else None, digits=1),
        overall.top if overall else False,
        result.cards.get(variant.first.engine),
        trial=any(cell.trial for cell in variant.cells),
        training=_training(variant),
    )


def _training(variant: VariantResults) -> str:
    """Say in a few words how a variant was trained."""
    cell = variant.first
    if cell.protocol.fit == "none":
        return "nothing is learnt"
    epochs = epochs_of(cell)
    folds = f"folds: {folds_of(cell)}" if cell.protocol.fit == "folds" else cell.protocol.fit
    return ", ".join([folds, *([f"epochs: {epochs}"] if epochs else [])])
