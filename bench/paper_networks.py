"""Run the paper's own networks for the paper's 150 epochs on a real feature set, beside simple rivals.

    python -m bench.paper_networks --sets musk1 --keep DIR

Preset `paper`: hidden layers 512-256-128, latent width 50, both gradient losses where the method has them, plain
features, the most varying bits. Without sites, as the sets have none. Protocols and scores as in `python -m
bench.encoders`; the last lines say how long one fit took. Hours on the larger sets, so these rows have a command of
their own.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from bench.encoder_codes import Entry, bytes_of, cost_of
from bench.encoder_sets import PROTOCOLS, load_sets, splits, tasks_of
from bench.encoders import DATA, compute, print_table, scored
from slideseek_components.encoders.deep.encoder import DeepFisher
from slideseek_components.encoders.deep_bfv import DeepBinaryFisherVector
from slideseek_components.encoders.deep_fv import DeepFisherVector
from slideseek_components.encoders.deep_sbfv import DeepSparseBinaryFisherVector
from slideseek_components.encoders.deep_sfv import DeepSparseFisherVector
from slideseek_components.encoders.mean import Mean
from slideseek_components.encoders.yottixel import Yottixel

EPOCHS = 150
METHODS: dict[str, type[DeepFisher]] = {
    "deep-fv": DeepFisherVector,
    "deep-sfv": DeepSparseFisherVector,
    "deep-bfv": DeepBinaryFisherVector,
    "deep-sbfv, 5000 bits": DeepSparseBinaryFisherVector,
}


def rows(epochs: int) -> list[Entry]:
    """Return the four methods of the paper and two rivals."""
    found = [
        Entry("yottixel", lambda seed, labels: Yottixel()),
        Entry("mean", lambda seed, labels: Mean(l2=True)),
    ]
    return found + [_of_paper(name, method, epochs) for name, method in METHODS.items()]


def _of_paper(name: str, method: type[DeepFisher], epochs: int) -> Entry:
    def make(seed: int, labels: int) -> DeepFisher:
        return method(preset="paper", sites=0, labels=labels, epochs=epochs, seed=seed, device="cpu")

    return Entry(f"{name}, paper, {epochs} epochs", make)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds bags/*.npz")
    parser.add_argument("--sets", nargs="*", default=["musk1"], help="ucsb, musk1, atlas, atlas2")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--keep", type=Path, help="keep distances in this folder, and use those there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        keep = given.keep or Path(temporary)
        keep.mkdir(parents=True, exist_ok=True)
        for features in load_sets(given.data, given.sets):
            compared = rows(given.epochs)
            compute(features, compared, given.seeds, keep)
            sizes = {row.name: bytes_of(features, row) for row in compared}
            for task in tasks_of(features):
                for protocol in PROTOCOLS:
                    found = {row.name: scored(task, row, protocol, given.seeds, keep) for row in compared}
                    print_table(task, protocol, found, sizes, {})
            first = next(splits(features, "archive", 0))
            for row in compared:
                print(f"{row.name}: one fit took {cost_of(features, row, first, keep).fit_s:.0f} s of one thread")


if __name__ == "__main__":
    main()
