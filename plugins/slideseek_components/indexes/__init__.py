"""Indexes: find the nearest codes, exactly or with a measured recall.

Exact: `hamming`, `cosine` and `sparse`, each a distance on top of `stored_index` (checks, spaces, ranking), which keeps
its slides in a `store` (slots, segments, masks) and its files in a `folder`. `median_of_minima` is the distance of two
sets. `hamming_compiled`, `hamming_kernels` and `hamming_lanes` make long Hamming searches fast.

Approximate: `annoy_forest` and `faiss_binary` (with `k_majority`), on top of `approximate`; `recall` measures them.
"""
