"""Tables of retrieval: an overview of all variants, engines by class, and one table per swept option."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slideseek_apps.bench import class_sums
from slideseek_apps.bench.class_sums import Statistic, macro, weighted
from slideseek_apps.bench.measures import Divisor
from slideseek_apps.bench.report.class_table import ClassRow, Means, class_table
from slideseek_apps.bench.report.sections import COSTS, Estimates, Section, Sums, VariantResults
from slideseek_apps.bench.report.settings import ReportSettings
from slideseek_apps.bench.report.swept_options import group_name, sweep_members
from slideseek_apps.bench.report.table import Column, Number, Row, Table, mark_best_in_columns
from slideseek_apps.bench.scoring import can_divide

MACRO_F1: Statistic = macro(class_sums.f1)
WEIGHTED_F1: Statistic = weighted(class_sums.f1)
BARS = "Brackets: 95 % bootstrap interval over patients"


class SectionTables:
    """Make the tables of one section; the sums of each variant are resampled once for all tables."""

    def __init__(self, section: Section, settings: ReportSettings) -> None:
        self.section = section
        self.settings = settings
        self.estimates: Mapping[str, Estimates] = {v.name: Estimates(v, settings) for v in section.variants}
        self.divisor = settings.ap_divisor or self._best_divisor()
        self.vote = f"majority-{settings.k}, tie {settings.tie}"

    def votes(self) -> tuple[str, Sums]:
        """Return the name of the counts from which F1 is computed, and the function that makes them."""
        settings = self.settings
        return f"votes {settings.k}", lambda lists: lists.vote_counts(settings.k, settings.tie)

    def macro_f1(self, variant: VariantResults) -> Number:
        """Return macro F1 in percent."""
        return self.estimates[variant.name].number(*self.votes(), MACRO_F1)

    def overview(self) -> Table:
        """Return one row per variant: every measure, and its cost."""
        measures = self._measures()
        costs = [cost for cost in COSTS if any(v.cost(cost.of).value is not None for v in self.section.variants)]
        columns = [Column(m.name, "accuracy (%)", "higher" if m.judged else "") for m in measures]
        columns += [Column(cost.name, "cost", "lower" if cost.judged else "") for cost in costs]
        rows = []
        for variant in self.section.variants:
            estimates = self.estimates[variant.name]
            numbers = [
                estimates.number(m.key, m.sums, m.statistic) if m.known(variant) else Number(None) for m in measures
            ]
            numbers += [variant.cost(cost.of) for cost in costs]
            rows.append(Row((variant.name, str(len(variant.seeds))), tuple(numbers)))
        k = self.settings.k
        caption = (
            f"F1 and accuracy: {self.vote}. P@{k}: divisor k. mAP@{k}: divisor {self.divisor}. nDCG@{k}: ideal "
            f"{self.divisor}. Means over queries. {seeds_note(self.section.variants)}{BARS}."
        )
        marked = mark_best_in_columns(columns, rows)
        return Table("overview", "All variants", caption, ("engine", "seeds"), tuple(columns), marked, self._notes())

    def engines_by_class(self, variants: Sequence[VariantResults]) -> Table:
        """Return F1 by site and subtype, one column per variant."""
        what = "site and subtype" if self.section.by_site else "class"
        columns = [Column(variant.name) for variant in variants]
        return self._classes("classes", f"F1 by {what}", columns, variants)

    def sweep(self, family: str) -> Table:
        """Return F1 by class for the values of one swept option (or of the lambdas), columns grouped by value."""
        members = sweep_members(self.section, family)
        columns = [Column(p.column, group_name(family, p.value)) for p in members]
        return self._classes(f"sweep-{family}", f"F1 by {family}", columns, [p.variant for p in members])

    def _classes(self, key: str, title: str, columns: Sequence[Column], variants: Sequence[VariantResults]) -> Table:
        makers = [self.estimates[variant.name] for variant in variants]
        by_class = [maker.numbers(*self.votes(), class_sums.f1) for maker in makers]
        slides = np.mean([lists.slides for v in variants for lists in v.lists], axis=0)
        rows = [
            ClassRow(site, label, float(slides[i]), tuple(numbers[i] for numbers in by_class))
            for i, (site, label) in enumerate(self.section.classes)
        ]
        means = Means(
            tuple(maker.number(*self.votes(), MACRO_F1) for maker in makers),
            tuple(maker.number(*self.votes(), WEIGHTED_F1) for maker in makers),
        )
        caption = f"F1 (%) of {self.vote}. {seeds_note(self.section.variants)}{BARS}; best of a row highlighted."
        return class_table(key, title, caption, columns, rows, means)

    def _measures(self) -> list[_Measure]:
        k, divisor = self.settings.k, self.divisor
        votes = self.votes()
        mean = class_sums.mean_of_queries
        found = [
            _Measure("macro F1", *votes, MACRO_F1),
            _Measure("weighted F1", *votes, WEIGHTED_F1),
            _Measure("accuracy", *votes, class_sums.accuracy),
            _Measure(f"P@{k}", "precision", lambda lists: lists.precisions(k, "k"), mean),
            _Measure(f"mAP@{k}", "ap", lambda lists: lists.average_precisions(k, divisor), mean, needs=divisor),
            _Measure(f"nDCG@{k}", "ndcg", lambda lists: lists.ndcgs(k, divisor), mean, needs=divisor),
        ]
        if any(lists.knows_centers for v in self.section.variants for lists in v.lists):
            found.append(_Measure(f"same centre@{k}", "centre", lambda lists: lists.same_center(k), mean, judged=False))
        return found

    def _best_divisor(self) -> Divisor:
        known = all(lists.knows_relevant for v in self.section.variants for lists in v.lists)
        return "min(k, relevant)" if known else "hits"

    def _notes(self) -> tuple[str, ...]:
        notes = []
        queries = {v.name: len({name for lists in v.lists for name in lists.ids}) for v in self.section.variants}
        most = max(queries.values())
        few = [f"{name} ({number} of {most})" for name, number in queries.items() if number < most]
        if few:
            notes.append(f"fewer queries for {', '.join(few)}: the numbers are of those slides")
        first = self.section.variants[0].lists[0].queries
        hopeless = sum(query.relevant == 0 for query in first)
        if hopeless:
            notes.append(
                f"{hopeless} of {len(first)} queries have no candidate of their class: "
                "they count as wrong for every engine"
            )
        failed: dict[int, list[str]] = {}
        for variant in self.section.variants:
            lost = {slide for cell in variant.cells for slide in cell.not_encoded}
            failed.setdefault(len(lost), []).append(variant.name)
        for number, names in failed.items():
            if number:
                slides = f"{number} slide{'s' if number > 1 else ''}{' each' if len(names) > 1 else ''}"
                notes.append(
                    f"{', '.join(names)} could not encode {slides}: as queries they found nothing and count as wrong"
                )
        short = min(lists.depth for v in self.section.variants for lists in v.lists)
        if short < self.settings.k:
            notes.append(f"k is {self.settings.k}, but some engines find at most {short} hits")
        if not all(can_divide(lists, self.divisor) for v in self.section.variants for lists in v.lists):
            notes.append(f"divisor {self.divisor} is unavailable where the number of relevant slides is unknown")
        return tuple(notes)


@dataclass(frozen=True, slots=True)
class _Measure:
    """A measure of the overview. judged: whether higher is better. needs: a divisor that the lists must allow."""

    name: str
    key: str
    sums: Sums
    statistic: Statistic
    judged: bool = True
    needs: Divisor | None = None

    def known(self, variant: VariantResults) -> bool:
        """Say whether the variant's lists have what the measure needs."""
        return self.needs is None or all(can_divide(lists, self.needs) for lists in variant.lists)


def seeds_note(variants: Sequence[VariantResults]) -> str:
    """Return the note on several seeds for a caption; "" where there is one seed."""
    return "Mean ± standard deviation over seeds. " if any(len(v.seeds) > 1 for v in variants) else ""
