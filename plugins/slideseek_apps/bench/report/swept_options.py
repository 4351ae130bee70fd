"""Options that a grid sweeps over, and the variants along each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from slideseek_apps.bench.report.sections import Section, VariantResults

_LAMBDA = re.compile(r"lambda(\d+|_\w+)")


@dataclass(frozen=True, slots=True)
class SweptVariant:
    """A variant at one value of a swept option. column: the engine and its other swept options."""

    variant: VariantResults
    value: Any
    column: str


def sweep_families(section: Section) -> list[str]:
    """Return the options with several values in a section; the lambdas count as one, as in the paper's table."""
    values: dict[str, set[str]] = {}
    for variant in section.variants:
        for option, value in variant.first.sweep.items():
            values.setdefault(family_of(option), set()).add(repr(value))
    return [family for family, seen in values.items() if len(seen) > 1]


def sweep_members(section: Section, family: str) -> list[SweptVariant]:
    """Return the variants along an option, sorted by its value, then in their order."""
    members = []
    for variant in section.variants:
        sweep = variant.first.sweep
        option = next((name for name in sweep if family_of(name) == family), None)
        if option is not None:
            rest = [f"{name}={show_value(value)}" for name, value in sweep.items() if name != option]
            named = [option] if option != family else []
            members.append(SweptVariant(variant, sweep[option], " ".join([variant.first.engine, *named, *rest])))
    return sorted(members, key=lambda member: _order(family, member.value))


def family_of(option: str) -> str:
    """Return the name under which an option is shown: `lambda` for every weight of a loss (lambda4, lambda_sparse)."""
    return "lambda" if _LAMBDA.fullmatch(option) else option


def show_value(value: Any) -> str:
    """Return an option's value as text: counts with separators, small numbers as powers of ten."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return str(value)
    text = f"{value:.2e}" if 0 < abs(value) < 0.01 else f"{value:g}"
    return re.sub(r"\.?0*e([+-])0*(\d)", r"e\1\2", text)


def group_name(family: str, value: Any) -> str:
    """Return the heading over the columns of one value."""
    return f"{family} = {'all' if _is_all(family, value) else show_value(value)}"


def as_number(family: str, value: Any) -> float | None:
    """Return the position of a value on an axis; None for "all bits" and for values that are not numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or _is_all(family, value):
        return None
    return float(value)


def _is_all(family: str, value: Any) -> bool:
    """Say whether a value means everything: the deep encoders keep all bits for bits = 0."""
    return family == "bits" and value == 0


def _order(family: str, value: Any) -> tuple[bool, float, str]:
    number = as_number(family, value)
    return number is None, number or 0.0, str(value)
