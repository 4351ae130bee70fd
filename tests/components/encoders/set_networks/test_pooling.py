"""Weighted means over patches: one slide in chunks agrees with a padded batch."""

import numpy as np
import pytest
import torch

from slideseek_components.encoders.attention_mil import AttentionNetwork
from slideseek_components.encoders.deep_sets import DeepSetsNetwork
from slideseek_components.encoders.focal_attention import FocalNetwork
from slideseek_components.encoders.memory_set import MemoryNetwork
from slideseek_components.encoders.set_networks.pooling import BatchPool, SlidePool

WIDTH = 7
NETWORKS = {
    "deep-sets": lambda: DeepSetsNetwork(WIDTH, (9, 6), (3,), 0.5),
    "attention": lambda: AttentionNetwork(WIDTH, (9, 6), (3,), 0.5, 4, True),
    "plain attention": lambda: AttentionNetwork(WIDTH, (9, 6), (3,), 0.5, 4, False),
    "memory": lambda: MemoryNetwork(WIDTH, (9, 6), (3,), 0.5, 2, 4, 1000),
    "focal": lambda: FocalNetwork(WIDTH, (9, 6), (3, 2), 0.5, 4),
}


def network(name):
    torch.manual_seed(3)
    return NETWORKS[name]().eval()


def slides(*sizes):
    rng = np.random.default_rng(1)
    return [rng.normal(size=(size, WIDTH)).astype(np.float32) for size in sizes]


def batch(features):
    most = max(map(len, features))
    x = torch.full((len(features), most, WIDTH), 77.0)  # what pads must not matter
    real = torch.zeros(len(features), most, dtype=torch.bool)
    for i, own in enumerate(features):
        x[i, : len(own)], real[i, : len(own)] = torch.from_numpy(own), True
    return BatchPool(x, real)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_slide_in_chunks_is_embedded_as_in_a_batch(name):
    made, features = network(name), slides(1, 40, 300, 700)
    with torch.no_grad():
        together = made.embed(batch(features)).numpy()
        alone = [made.embed(SlidePool(own, torch.from_numpy)).numpy()[0] for own in features]
    assert together.shape == (4, 6)
    assert np.allclose(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_probabilities_add_up(name):
    with torch.no_grad():
        found = network(name).classify(batch(slides(4, 9)))
    for logs in found:
        assert torch.allclose(logs.exp().sum(1), torch.ones(2), atol=1e-5)


def test_large_scores_do_not_overflow():
    own = slides(600)[0]
    pool = SlidePool(own, torch.from_numpy)
    found = pool.mean(lambda x: (1e4 * x[..., :1], x))
    assert np.allclose(found[0, 0], own[own[:, 0].argmax()])


def test_memory_units_follow_the_published_equations():
    made, own = network("memory"), slides(12)[0]
    with torch.no_grad():
        h = made.patch(torch.from_numpy(own))
        units = []
        for memories in torch.tanh(made.memories(h)).reshape(12, 2, 4).unbind(1):
            shares = torch.softmax(memories @ memories.T, dim=0)  # of each column
            units.append(shares.mean(1) @ h)
        expected = made.join(torch.cat(units)[None])
        assert torch.allclose(made.embed(SlidePool(own, torch.from_numpy)), expected, atol=1e-5)


def test_few_queries_are_spread_over_the_slide():
    own = slides(500)[0]
    x, real = SlidePool(own, torch.from_numpy).some(10)
    assert x.shape == (1, 10, WIDTH) and bool(real.all())
    shuffled, _ = SlidePool(own[np.random.default_rng(0).permutation(500)], torch.from_numpy).some(10)
    assert torch.equal(x, shuffled)


def test_focal_factor_starts_near_the_plain_mean_of_probabilities():
    made, own = network("focal"), slides(30)[0]
    for focal in made.focal:
        torch.nn.init.zeros_(focal.weight)
        torch.nn.init.zeros_(focal.bias)
    with torch.no_grad():
        pool = SlidePool(own, torch.from_numpy)
        h = made.patch(torch.from_numpy(own))
        a = torch.exp(made._scores(h[None], made._context(pool.through(made.patch))))[0]
        expected = (a * torch.softmax(made.heads[0](h), dim=1)).sum(0) / a.sum()
        assert torch.allclose(made.classify(pool)[0].exp()[0], expected, atol=1e-4)
