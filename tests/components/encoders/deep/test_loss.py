"""The losses against literal transcriptions of Eq. 7, 8 and 14, and their gradients against finite differences."""

import pytest
import torch

from slideseek_components.encoders.deep.loss import LossWeights, cvae_terms, penalised_gradients
from slideseek_components.encoders.deep.network import CVAE, Shape

CASES = {"fv": (0.0, 0.0), "sfv": (0.03, 0.0), "bfv": (0.0, 0.02), "sbfv": (0.03, 0.02)}


@pytest.fixture
def case():
    network = CVAE.seeded(1, Shape(6, 2, 3, (5, 4), 2), "tanh").double()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(8, 6, generator=generator, dtype=torch.float64)
    noise = torch.randn(8, 2, generator=generator, dtype=torch.float64)
    site, label = torch.arange(8) % 2, torch.arange(8) % 3
    return network, x, site, label, noise


def eq7(case, l1, l2, l3):
    """Eq. 6 and 7 with loops over patches."""
    network, x, site, label, noise = case
    out = network(x, site, noise)
    total = 0
    for t in range(len(x)):
        rec = ((x[t] - out.x[t]) ** 2).sum()
        var = out.logvar[t].exp()
        kl = -(0.5 * (1 + torch.log(var)).sum() - 0.5 * (out.mu[t] ** 2).sum() - 0.5 * var.sum())
        cls = -torch.log(torch.softmax(out.logits[t], 0)[label[t]])
        total = total + (l1 * rec + l2 * kl + l3 * cls) / len(x)
    return total


def added(network, loss, l4, l5, signs=None):
    """What Eq. 8 and Eq. 14 add, and the signs B of Eq. 13."""
    gradients = torch.autograd.grad(loss, list(network.parameters()), create_graph=True)
    signs = [torch.sign(g.detach()) for g in gradients] if signs is None else signs
    l1 = sum(g.abs().sum() for g in gradients)
    squares = sum(((g - b) ** 2).sum() for g, b in zip(gradients, signs))
    return l4 * l1 + l5 * squares, l1, squares, signs


def test_terms_equal_eq_7(case):
    network = case[0]
    got = cvae_terms(*case).total(LossWeights(0.7, 0.2, 1.3, 0, 0))
    assert got.item() == pytest.approx(eq7(case, 0.7, 0.2, 1.3).item(), rel=1e-12)
    half = cvae_terms(*case).total(LossWeights(0.7, 0.2, 1.3, 0, 0), kl_share=0.5)
    assert half.item() == pytest.approx(eq7(case, 0.7, 0.1, 1.3).item(), rel=1e-12)
    assert network.shape.labels == 3


@pytest.mark.parametrize("name", CASES)
def test_gradients_and_sums_equal_the_transcription(case, name):
    network, (l4, l5) = case[0], CASES[name]
    parameters = list(network.parameters())
    loss = cvae_terms(*case).total(LossWeights(0.7, 0.2, 1.3, l4, l5))
    gradients, penalty = penalised_gradients(loss, parameters, LossWeights(0.7, 0.2, 1.3, l4, l5))
    plain = eq7(case, 0.7, 0.2, 1.3)
    extra, l1, squares, _ = added(network, plain, l4, l5)
    wanted = torch.autograd.grad(plain + extra, parameters)
    assert penalty.l1 == pytest.approx(l1.item(), rel=1e-10)
    assert penalty.quantisation == pytest.approx(squares.item(), rel=1e-10)
    for a, b in zip(gradients, wanted):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", CASES)
def test_gradients_equal_finite_differences_with_the_signs_held_fixed(case, name):
    network, (l4, l5) = case[0], CASES[name]
    weights = LossWeights(0.7, 0.2, 1.3, l4, l5)
    parameters = list(network.parameters())
    gradients, _ = penalised_gradients(cvae_terms(*case).total(weights), parameters, weights)
    signs = added(network, eq7(case, 0.7, 0.2, 1.3), l4, l5)[3]
    step = 1e-6
    for parameter, gradient in zip(parameters, gradients):
        flat, place = parameter.data.view(-1), parameter.numel() // 2
        values = []
        for direction in (1, -1):
            flat[place] += direction * step
            plain = eq7(case, 0.7, 0.2, 1.3)
            values.append((plain + added(network, plain, l4, l5, signs)[0]).item())
            flat[place] -= direction * step
        slope = (values[0] - values[1]) / (2 * step)
        assert float(gradient.view(-1)[place]) == pytest.approx(slope, rel=2e-4, abs=1e-6)


def test_no_labels_means_no_classification():
    network = CVAE.seeded(1, Shape(6, 0, 0, (5,), 2), "relu")
    terms = cvae_terms(network, torch.randn(4, 6), torch.zeros(4, dtype=torch.int64), torch.zeros(4), None)
    assert terms.classification.item() == 0
