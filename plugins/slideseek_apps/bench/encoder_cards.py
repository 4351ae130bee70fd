"""Cards of the engines of a submission: read from TOML, checked against what was run, kept as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slideseek.archive.files import safe_name
from slideseek.config import parse_toml
from slideseek.digests import sha256_file
from slideseek.errors import SlideseekError, UsageError
from slideseek_apps.bench.records import EncoderCard, check_form

CARDS = "cards"
TEMPLATE = """\
[[card]]
engine = "{engine}"
training_cohorts = []          # such as ["TCGA", "GTEx"]; empty if nothing was trained
weights = ""                   # the file of the weights, to hash; or weights_sha256 = "..."
licence = ""                   # of the weights and the code, such as "Apache-2.0"
seen_this_cohort = "unknown"   # "yes", "no" or "unknown": were slides of this benchmark's cohort trained on?
"""


def read_cards(path: Path, engines: Sequence[str], datasets: Sequence[str]) -> dict[str, EncoderCard]:
    """Read the cards in a TOML file: one `[[card]]` per engine. Relative paths of weights start at its folder.

    A card that says 'no' although its cohorts name the dataset is an error, and so is an engine without a card.
    """
    found: dict[str, EncoderCard] = {}
    tables = parse_toml(path.read_text(encoding="utf-8"), str(path)).get("card", [])
    for number, table in enumerate(tables if isinstance(tables, list) else [tables], 1):
        card = _card(path, number, table)
        seen = [name for name in datasets if any(_same(name, cohort) for cohort in card.training_cohorts)]
        if seen and card.seen_this_cohort == "no":
            cause = (
                f"the card of {card.engine!r} says that it has not seen {seen[0]!r}, which is a training cohort of it"
            )
            raise UsageError(f"{path}: {cause}", 'write seen_this_cohort = "yes", or correct training_cohorts')
        found[card.engine] = card
    if missing := [engine for engine in engines if engine not in found]:
        raise UsageError(f"{path}: no card for engine {missing[0]!r}", f"add:\n\n{TEMPLATE.format(engine=missing[0])}")
    return {engine: found[engine] for engine in engines}


def write_cards(folder: Path, cards: Mapping[str, EncoderCard]) -> None:
    """Write one JSON file per card into `cards` in a folder."""
    (folder / CARDS).mkdir()
    for engine, card in cards.items():
        text = json.dumps(card.model_dump(), indent=2, ensure_ascii=False) + "\n"
        (folder / CARDS / f"{safe_name(engine)}.json").write_text(text, encoding="utf-8")


def cards_of(folder: Path) -> dict[str, EncoderCard]:
    """Return the cards in a results folder, by engine; none where it was not submitted."""
    found = {}
    for path in sorted((folder / CARDS).glob("*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise SlideseekError(f"{path} is not JSON ({error})", "submit the results again") from error
        check_form("card", record, str(path), "submit the results again")
        card = EncoderCard.model_validate(record)
        found[card.engine] = card
    return found


def _card(path: Path, number: int, table: Any) -> EncoderCard:
    record = dict(table) if isinstance(table, dict) else {}
    weights = record.pop("weights", "")
    if weights:
        file = path.parent / str(weights)
        if not file.is_file():
            raise UsageError(f"{path}, card {number}: {file} does not exist", "correct `weights`")
        record["weights_sha256"] = sha256_file(file)
    elif "weights_sha256" not in record:
        record["weights_sha256"] = ""
    check_form("card", record, f"{path}, card {number}", f"write it like this:\n\n{TEMPLATE.format(engine='NAME')}")
    return EncoderCard.model_validate(record)


def _same(one: str, other: str) -> bool:
    """Return whether two names are of one cohort: equal, or one starts with the other (TCGA, TCGA-LUAD)."""
    a, b = sorted((one.casefold(), other.casefold()), key=len)
    return bool(a) and (a == b or b.startswith((f"{a}-", f"{a}_", f"{a} ")))
