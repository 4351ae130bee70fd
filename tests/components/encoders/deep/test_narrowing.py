"""The last step back, taken for some outputs only, gives what the whole step gives."""

import numpy as np
import pytest
import torch

from slideseek_components.encoders.deep.network import CVAE, Inputs, Shape
from slideseek_components.encoders.deep.patch_gradients import entries_of, narrowed
from slideseek_components.encoders.deep.slide_gradients import Gradients, SlideInput


def make(dtype=torch.float64, activation="tanh"):
    return CVAE.seeded(3, Shape(10, 2, 3, (12, 9), 4), activation).to(dtype)


def first_entries(network, layer, rows):
    """Positions of one weight a row of `layer`, for some of its rows, and of the whole last layer."""
    start = 0
    for name, (outputs, inputs) in network.shape.layers().items():
        if name == layer:
            return np.array([start + row * inputs + row % inputs for row in rows])
        start += outputs * (inputs + 1)
    raise KeyError(layer)


@pytest.mark.parametrize("activation", ["relu", "leaky-relu", "elu", "tanh"])
@pytest.mark.parametrize("layer", ["encoder.0", "decoder.0", "decoder.1"])
def test_narrow_traces_are_columns_of_whole_ones(layer, activation):
    network = make(activation=activation)
    gradients = Gradients(network, Inputs.plain(10, 0.0), network.shape.layers())
    features, rows = np.random.default_rng(0).normal(size=(8, 10)).astype(np.float32), [1, 4]
    entries, narrow = narrowed(network, entries_of(network.shape.layers(), first_entries(network, layer, rows)))
    assert narrow is not None and narrow.layer == layer
    assert entries[0].row.tolist() == [0, 1] and entries[0].column.tolist() == rows
    (_, traces), (_, everything) = (next(gradients.traces(features, 0, [name])) for name in (narrow.following, layer))
    assert layer not in traces.delta
    found, whole = narrow.trace(network, traces), everything[layer]
    torch.testing.assert_close(found.delta, whole.delta[:, rows], rtol=1e-12, atol=1e-14)
    assert torch.equal(found.inward, whole.inward)


@pytest.mark.parametrize("layer", ["encoder.1", "mu", "logits", "decoder.2"])
def test_outputs_that_go_into_several_layers_or_none_are_not_narrowed(layer):
    network = make()
    entries = entries_of(network.shape.layers(), first_entries(network, layer, [0, 1]))
    assert narrowed(network, entries) == (entries, None)


def test_nothing_is_gained_where_most_outputs_are_met():
    network = make()
    entries = entries_of(network.shape.layers(), first_entries(network, "encoder.0", range(7)))
    assert narrowed(network, entries)[1] is None


def test_a_slide_gets_the_same_bits_beside_slides_that_ask_for_other_layers():
    network = make(torch.float32, "relu")
    gradients = Gradients(network, Inputs.plain(10, 0.0), network.shape.layers())
    rng = np.random.default_rng(0)
    asked = [
        gradients.wanted(first_entries(network, "encoder.0", [1, 4])),
        gradients.wanted(np.concatenate([first_entries(network, "decoder.0", [2]), [gradients.size - 1]])),
        gradients.wanted(first_entries(network, "decoder.2", [2, 3, 5])),
        gradients.wanted(None),
    ]
    assert [wanted.narrow is not None for wanted in asked] == [True, True, False, False]
    inputs = [
        SlideInput(rng.normal(size=(n, 10)).astype(np.float32), 1, asked[n % 4]) for n in (1, 2, 3, 4, 9, 18, 40, 51)
    ]
    alone = [next(gradients.means([one])) for one in inputs]
    for order in (list(range(8)), [7, 2, 5, 0, 6, 1, 3, 4]):
        for i, mean in zip(order, gradients.means([inputs[i] for i in order])):
            assert mean.tobytes() == alone[i].tobytes()
