"""Compare encoders on real features, under two protocols, and print what wins and what it costs.

    python -m bench.encoders --seeds 3 --keep DIR

Trained on the archive: five folds by patient; a slide is searched for among the training folds. Archive never seen:
everything is fitted on half of the patients, and a slide of the other half is searched for within that half, its
patient left out. Everything that is learnt is learnt from the training slides; a seed draws the folds and trains the
networks. mAP: mean average precision over all candidates. F1@k: macro F1 of the majority of the k nearest. A slide
without a match among its candidates is not counted. Standard errors come from a bootstrap over patients, differences
are paired. `vs` lines are the mAP differences of the recommended encoder and of the deep one to the others.

`--keep DIR` keeps the distances between slides, so that the table can be made in parts (`--sets`, `--encoders`) and
goes on where it was stopped. `--costs` fits every row once more, alone, and prints what it costs.
`--change 'by = "site"'` adds a row: the recommended encoder with options changed. `--page FILE` writes the tables of
docs/results/encoders.md, all of them from what this run scored.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from bench.encoder_codes import Cost, Entry, bytes_of, cost_of, near_of
from bench.encoder_entries import RECOMMENDED, RIVALS, entries
from bench.encoder_page import page
from bench.encoder_scores import Score, rank, score
from bench.encoder_sets import PROTOCOLS, FeatureSet, Protocol, Task, counted, deal_out, load_sets, splits, tasks_of
from slideseek.errors import SlideseekError

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
DEALS = 10
"""How often the labels of queries are dealt out again for a control."""
COMPARED = (f"{RECOMMENDED} 5000 bits", f"{RECOMMENDED} 512 bits", "deep-sbfv best 5000 bits")

Scores: TypeAlias = Mapping[str, Mapping[str, Score]]
"""Row of a table -> measure -> score."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds bags/*.npz")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="*", default=[], help="ucsb, musk1, atlas, atlas2; all when left out")
    parser.add_argument("--encoders", nargs="*", default=[], help="only the rows with these names")
    parser.add_argument("--keep", type=Path, help="keep distances in this folder, and use those there")
    parser.add_argument("--costs", action="store_true", help="measure the time and memory of each row, nothing shared")
    parser.add_argument("--change", action="append", default=[], metavar="TOML", help="a row with options changed")
    parser.add_argument("--figure", type=Path, help="draw quality against bytes per slide into this file")
    parser.add_argument("--page", type=Path, help="write all tables as Markdown into this file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        keep = given.keep or Path(temporary)
        keep.mkdir(parents=True, exist_ok=True)
        rows = [row for row in entries(tuple(given.change)) if not given.encoders or row.name in given.encoders]
        drawn: dict[str, tuple[Scores, Mapping[str, float]]] = {}
        columns: dict[str, Scores] = {}
        for features in load_sets(given.data, given.sets):
            usable = [row for row in rows if fits(row, features)]
            compute(features, usable, given.seeds, keep)
            sizes = {row.name: bytes_of(features, row) for row in usable}
            first = next(splits(features, "archive", 0))
            costs = {row.name: cost_of(features, row, first, keep) for row in usable} if given.costs else {}
            for task in tasks_of(features):
                for protocol in PROTOCOLS:
                    found = {row.name: scored(task, row, protocol, given.seeds, keep) for row in usable}
                    print_table(task, protocol, found, sizes, costs)
                    slides, patients = counted(task, protocol, given.seeds)
                    print(f"  {slides:.0f} slides per seed have a match, of {patients} patients", flush=True)
                    columns[f"{task.name}, {protocol}"] = found
                    drawn[f"{task.name}\n{PROTOCOLS[protocol].split(':')[0]}"] = found, sizes
        if given.figure:
            from bench.encoder_figure import draw  # only this needs matplotlib

            draw(drawn, given.figure)
        if given.page:
            given.page.write_text(page(columns) + "\n", encoding="utf-8")


def compute(features: FeatureSet, rows: Sequence[Entry], seeds: int, keep: Path) -> None:
    """Compute all distances that are not kept yet, split by split: rows that share a network train it once."""
    for seed in range(seeds):
        for protocol in PROTOCOLS:
            for split in splits(features, protocol, seed):
                for row in rows:
                    near_of(features, row, seed, protocol, split, keep)


def scored(task: Task, row: Entry, protocol: Protocol, seeds: int, keep: Path) -> dict[str, Score]:
    """Return the scores of one row on one task."""
    ranked = []
    for seed in range(seeds):
        found = [
            (split, near_of(task.features, row, seed, protocol, split, keep))
            for split in splits(task.features, protocol, seed)
        ]
        judged = shuffled(task, seed) if row.control else task
        deals = range(DEALS) if row.dealt_again else [None]
        ranked += [rank(judged, protocol, found, again) for again in deals]
    return score(task, ranked)


def shuffled(task: Task, seed: int) -> Task:
    """Return the task with the labels and sites that the rows with shuffled labels were fitted on."""
    dealt = tasks_of(deal_out(task.features, seed))
    return next(one for one in dealt if one.name == task.name)


def fits(row: Entry, features: FeatureSet) -> bool:
    """Return whether an encoder can be made for a set: a network may have fewer gradients than the bits asked for."""
    try:
        row.make(0, len(set(features.labels))).spec(features.bags[0].width)
    except SlideseekError:
        return False
    return True


def print_table(
    task: Task, protocol: Protocol, found: Scores, sizes: Mapping[str, float], costs: Mapping[str, Cost]
) -> None:
    """Print one task under one protocol, and the paired differences. sizes: bytes per slide."""
    features = task.features
    patients, classes = len(set(features.groups)), len(set(task.targets))
    print(f"\n{task.name}: {len(features.bags)} slides, {patients} patients, {classes} classes; {PROTOCOLS[protocol]}")
    head = f"{'':38s}        mAP   F1@1         F1@3   F1@5     bytes"
    print(head + ("  ms/slide  fit s  peak MB" if costs else ""))
    for name, scores in found.items():
        first, third, cost = scores["mAP"], scores["F1@3"], costs.get(name)
        line = (
            f"{name:38s} {first.mean:5.1f} +-{first.error:4.1f}  {scores['F1@1'].mean:5.1f}  {third.mean:5.1f} "
            f"+-{third.error:4.1f}  {scores['F1@5'].mean:5.1f} {sizes[name]:9.0f}"
        )
        print(line + (f" {cost.encode_ms:9.1f} {cost.fit_s:6.1f} {cost.peak_mb:8.0f}" if cost else ""))
    for name in COMPARED:
        for measure in ("mAP", "F1@3"):
            if name in found:
                print(f"  {name} vs ({measure}): " + "; ".join(_differences(found, name, measure)))
    floats, bits = f"{RECOMMENDED}, floats", f"{RECOMMENDED} 5000 bits"
    if floats in found and bits in found:
        kept = 100 * found[bits]["mAP"].mean / found[floats]["mAP"].mean
        print(f"  5,000 bits keep {kept:.1f} % of the mAP of the float code", flush=True)


def _differences(found: Scores, name: str, measure: str) -> list[str]:
    shown = []
    for rival in RIVALS:
        if rival in found:
            difference, error = found[name][measure].against(found[rival][measure])
            shown.append(f"{rival} {difference:+.1f} +-{error:.1f}")
    return shown


if __name__ == "__main__":
    main()
