"""The layout of the paper's network."""

import pytest
import torch

from slideseek_components.encoders.deep.network import CVAE, Shape


def test_has_exactly_the_papers_number_of_parameters():
    network = CVAE(1024, sites=10, labels=29)
    assert sum(p.numel() for p in network.parameters()) == 1_407_105
    assert Shape(1024, 10, 29).parameters() == 1_407_105


@pytest.mark.parametrize(("sites", "labels"), [(3, 4), (0, 4), (3, 0), (0, 0)])
def test_layer_names_follow_the_parameters(sites, labels):
    network = CVAE(9, sites, labels, (7, 5), 2)
    sizes = network.shape.layers()
    named = dict(network.named_parameters())
    assert [f"{layer}.{part}" for layer in sizes for part in ("weight", "bias")] == list(named)
    assert all(tuple(named[f"{layer}.weight"].shape) == size for layer, size in sizes.items())
    assert network.shape.parameters() == sum(p.numel() for p in named.values())


def test_z_is_mu_without_noise_and_moves_with_it():
    network = CVAE(9, 2, 3, (7,), 2).double()
    x, site = torch.randn(4, 9, dtype=torch.float64), torch.tensor([0, 1, 1, 0])
    plain = network(x, site, None)
    assert torch.equal(plain.x, network(x, site, torch.zeros(4, 2, dtype=torch.float64)).x)
    assert not torch.equal(plain.x, network(x, site, torch.ones(4, 2, dtype=torch.float64)).x)


def test_the_site_enters_only_where_conditioned():
    x = torch.randn(4, 9)
    for sites, differs in ((2, True), (0, False)):
        network = CVAE.seeded(0, Shape(9, sites, 3, (7,), 2), "relu")
        a, b = (network(x, torch.full((4,), s), None).x for s in (0, 1))
        assert torch.equal(a, b) != differs


@pytest.mark.parametrize("activation", ["relu", "leaky-relu", "elu", "tanh"])
def test_the_way_back_is_the_derivative_of_the_activation(activation):
    network = CVAE(3, 0, 0, (2,), 1, activation)
    x = torch.linspace(-3, 3, 50, dtype=torch.float64, requires_grad=True)
    y = network.act(x.clone())
    delta = torch.randn(50, dtype=torch.float64)
    (wanted,) = torch.autograd.grad(y, x, delta)
    assert torch.allclose(network.back(delta.clone(), y.detach()), wanted)


def test_seeded_weights_leave_the_global_random_state_alone():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    a, b = (CVAE.seeded(7, Shape(9, 0, 0, (4,), 2), "relu") for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters()))
    other = CVAE.seeded(8, Shape(9, 0, 0, (4,), 2), "relu")
    assert not torch.equal(a.mu.weight, other.mu.weight)
