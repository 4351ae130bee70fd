"""Clusters of bit codes: k-means in Hamming space, where the centre of a cluster is the majority of each bit."""

from __future__ import annotations

import faiss
import numpy as np

from slideseek.types import Int64, UInt8


def k_majority(rows: UInt8, count: int, rounds: int, seed: int) -> UInt8:
    """Return `count` centres of packed codes, uint8 (n, columns) with n >= count, after at most `rounds` rounds.

    A centre that loses all its codes stays unchanged. Memory is limited to one unpacked cluster.
    """
    rng = np.random.default_rng(seed)
    centres = np.ascontiguousarray(rows[np.sort(rng.choice(len(rows), count, replace=False))])
    owners = np.full(len(rows), -1)
    for _ in range(rounds):
        previous, owners = owners, nearest_centres(rows, centres)
        if np.array_equal(previous, owners):
            break
        order = np.argsort(owners, kind="stable")
        present, first = np.unique(owners[order], return_index=True)
        for owner, members in zip(present.tolist(), np.split(order, first[1:]), strict=True):
            votes = np.unpackbits(rows[members], axis=1).sum(axis=0, dtype=np.int64)
            centres[owner] = np.packbits(2 * votes > len(members))
    return centres


def nearest_centres(rows: UInt8, centres: UInt8) -> Int64:
    """Return the number of the nearest centre of each row."""
    flat = faiss.IndexBinaryFlat(centres.shape[1] * 8)
    flat.add(centres)
    owners: Int64 = flat.search(np.ascontiguousarray(rows), 1)[1][:, 0]
    return owners
