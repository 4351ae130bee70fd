"""The closed-form gradient against autograd, patch by patch, and against finite differences."""

import weakref

import numpy as np
import pytest
import torch

from slideseek_components.encoders.deep.device import reproducible
from slideseek_components.encoders.deep.network import CVAE, Inputs, Shape
from slideseek_components.encoders.deep.patch_gradients import Pass, Traces, entries_of, full_sums
from slideseek_components.encoders.deep.slide_gradients import Gradients, SlideInput
from slideseek_components.single_core import run_tasks


def make(sites=2, labels=3, activation="relu", hidden=(12, 9), width=10, dtype=torch.float64):
    return CVAE.seeded(3, Shape(width, sites, labels, hidden, 4), activation).to(dtype)


def traced(network, x, site, wanted):
    """The traces of the sum over patches."""
    traces = Traces.unwritten(network.shape, len(x), wanted, x.dtype, x.device)
    traces.inward["encoder.0"].copy_(x)
    sites = torch.nn.functional.one_hot(site, network.shape.sites).to(x) if network.shape.sites else x[:, :0]
    Pass(network)(traces, sites, torch.full((len(x), 1), 2.0).to(x))
    return traces


def per_patch(network, x, site):
    """The mean over patches of Eq. 15's gradient, one autograd call per patch."""
    total = torch.zeros(()).to(x)
    for t in range(len(x)):
        out = network(x[t : t + 1], site[t : t + 1], None)
        gradients = torch.autograd.grad(
            (x[t : t + 1] - out.x).square().sum(), list(network.parameters()), materialize_grads=True
        )
        total = total + torch.cat([g.flatten() for g in gradients])
    return (total / len(x)).detach()


@pytest.mark.parametrize("activation", ["relu", "leaky-relu", "elu", "tanh"])
@pytest.mark.parametrize(("sites", "labels"), [(2, 3), (0, 3), (2, 0), (0, 0)])
@pytest.mark.parametrize("hidden", [(12, 9), (7,)])
def test_equals_the_per_patch_average(activation, sites, labels, hidden):
    network = make(sites, labels, activation, hidden)
    x, site = torch.randn(17, 10, dtype=torch.float64), torch.zeros(17, dtype=torch.int64)
    layers = network.shape.layers()
    out = torch.empty(network.shape.parameters(), dtype=torch.float64)
    run_tasks(full_sums(layers, traced(network, x, site, layers), out), 1)
    torch.testing.assert_close(out / 17, per_patch(network, x, site), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_equals_the_per_patch_average_in_float32_at_full_size():
    network = CVAE.seeded(0, Shape(1024, 10, 29), "relu")
    features = np.random.default_rng(0).normal(size=(20, 1024)).astype(np.float32)
    gradients = Gradients(network, Inputs.plain(1024, 0.0), network.shape.layers())
    got = next(gradients.means([SlideInput(features, 4, gradients.wanted(None))]))
    wanted = per_patch(network.double(), torch.from_numpy(features).double(), torch.full((20,), 4)).numpy()
    assert np.abs(got - wanted).max() < 1e-6 * np.abs(wanted).max()
    assert np.linalg.norm(got - wanted) < 1e-6 * np.linalg.norm(wanted)


def test_equals_finite_differences():
    network = make(activation="tanh")
    x, site = torch.randn(6, 10, dtype=torch.float64), torch.tensor([0, 1, 1, 0, 1, 0])
    layers = network.shape.layers()
    out = torch.empty(network.shape.parameters(), dtype=torch.float64)
    run_tasks(full_sums(layers, traced(network, x, site, layers), out), 1)
    flat = torch.nn.utils.parameters_to_vector(network.parameters()).detach()

    def loss(vector):
        torch.nn.utils.vector_to_parameters(vector, network.parameters())
        with torch.no_grad():
            return float((x - network(x, site, None).x).square().sum())

    for place in np.random.default_rng(0).choice(len(flat), 60, replace=False):
        step = torch.zeros_like(flat)
        step[place] = 1e-6
        slope = (loss(flat + step) - loss(flat - step)) / 2e-6
        assert float(out[place]) == pytest.approx(slope, rel=1e-4, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 5, 60, 400])
def test_chosen_entries_equal_the_whole(count):
    network = make()
    features = np.random.default_rng(1).normal(size=(40, 10)).astype(np.float32)
    gradients = Gradients(network, Inputs.plain(10, 0.0), network.shape.layers())
    chosen = np.sort(np.random.default_rng(2).choice(gradients.size, count, replace=False))
    whole, some = (next(gradients.means([SlideInput(features, 1, gradients.wanted(part))])) for part in (None, chosen))
    np.testing.assert_allclose(some, whole[chosen], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("layer", ["decoder.2", "decoder.0", "mu", "logvar", "logits", "encoder.1", "encoder.0"])
def test_the_pass_stops_early_with_the_same_numbers(layer):
    network = make()
    x, site = torch.randn(8, 10, dtype=torch.float64), torch.zeros(8, dtype=torch.int64)
    layers = list(network.shape.layers())
    everything = traced(network, x, site, layers)
    alone = traced(network, x, site, [layer])
    heads = {"mu", "logvar", "logits"}
    reached = layers[min(layers.index(name) for name in (heads if layer in heads else {layer})) :]
    assert list(alone.delta) == reached
    assert torch.equal(alone[layer].delta, everything[layer].delta)
    assert torch.equal(alone[layer].inward, everything[layer].inward)


def test_entries_cover_weights_and_biases_of_every_layer():
    network = make()
    layers = network.shape.layers()
    size = network.shape.parameters()
    x, site = torch.randn(5, 10, dtype=torch.float64), torch.ones(5, dtype=torch.int64)
    traces = traced(network, x, site, layers)
    whole = torch.empty(size, dtype=torch.float64)
    run_tasks(full_sums(layers, traces, whole), 1)
    order = np.random.default_rng(0).permutation(size)
    entries = entries_of(layers, order)
    assert [entry.layer for entry in entries] == list(layers)
    added, listed = np.empty(size), np.empty(size)
    for entry in entries:
        added[entry.place] = entry.sums(traces[entry.layer])
        listed[entry.place] = entry.products(traces[entry.layer]).sum(dim=0).numpy()
    for found in (added, listed):
        np.testing.assert_allclose(found, whole.numpy()[order], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("activation", ["relu", "elu", "tanh"])
@pytest.mark.parametrize(("hidden", "latent"), [((160, 96), 20), ((33, 9, 50), 1)])
@pytest.mark.parametrize("part", ["whole", "few", "many"])
@pytest.mark.parametrize("sizes", [[100], [700], [3, 90, 1, 17, 300, 8], [40] * 20, [1500, 30, 600]])
def test_the_bits_depend_neither_on_the_threads_nor_on_company(activation, hidden, latent, part, sizes):
    shape = Shape(64, 3, 4, hidden, latent)
    network, rng = CVAE.seeded(0, shape, activation), np.random.default_rng(5)
    slides = [rng.normal(size=(size, 64)).astype(np.float32) for size in sizes]
    gradients = Gradients(network, Inputs.plain(64, 0.0), shape.layers())
    every = {"whole": 0, "few": 40, "many": 5}[part]
    chosen = gradients.wanted(np.arange(0, gradients.size, every) if every else None)
    inputs = [SlideInput(slide, i % 3, chosen) for i, slide in enumerate(slides)]
    with reproducible(1):
        alone = [next(gradients.means([one])).tobytes() for one in inputs]
        for threads in (1, 2, 3, 5):
            assert [mean.tobytes() for mean in gradients.means(inputs, threads)] == alone


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_bits_are_the_same_at_full_size(dtype):
    shape = Shape(1024, 10, 29)
    network, rng = CVAE.seeded(0, shape, "elu").to(dtype), np.random.default_rng(5)
    scaled = Inputs(rng.normal(size=1024), rng.uniform(0.5, 2, 1024), 5.0)
    gradients = Gradients(network, scaled, shape.layers())
    both = [gradients.wanted(None), gradients.wanted(np.arange(0, gradients.size, 300))]
    inputs = [
        SlideInput(rng.normal(size=(n, 1024)).astype(np.float32), n % 10, wanted)
        for n in (100, 9, 140)
        for wanted in both
    ]
    with reproducible(1):
        alone = [next(gradients.means([one])).tobytes() for one in inputs]
        for threads in (1, 2, 3):
            assert [mean.tobytes() for mean in gradients.means(inputs, threads)] == alone


@pytest.mark.parametrize("site", [2, -3])
def test_a_site_that_the_network_does_not_know_is_an_error(site):
    gradients = Gradients(make(), Inputs.plain(10, 0.0), make().shape.layers())
    with pytest.raises(IndexError):
        next(gradients.means([SlideInput(np.zeros((3, 10), np.float32), site, gradients.wanted(None))]))


@pytest.mark.parametrize("threads", [1, 2])
def test_features_that_cannot_be_read_are_an_error_and_the_next_slide_is_not(threads):
    class Broken(np.ndarray):
        def __getitem__(self, key):
            raise OSError("the disk is gone")

    gradients = Gradients(make(), Inputs.plain(10, 0.0), make().shape.layers())
    features = np.random.default_rng(0).normal(size=(120, 10)).astype(np.float32)
    good, bad = (SlideInput(rows, 0, gradients.wanted(None)) for rows in (features, features.view(Broken)))
    wanted = next(gradients.means([good], threads)).tobytes()
    with pytest.raises(OSError, match="the disk is gone"):
        next(gradients.means([bad], threads))
    assert next(gradients.means([good], threads)).tobytes() == wanted


def test_rows_of_rows_are_counted_from_the_first_of_these():
    traces = Traces.unwritten(Shape(10, 0, 0, (4,), 2), 9, ["mu"], torch.float32, torch.device("cpu"))
    traces.inward["mu"][:] = torch.arange(9)[:, None]
    assert traces.rows(2, 8).rows(1, 3)["mu"].inward[:, 0].tolist() == [3, 4]


@pytest.mark.parametrize("every", [0, 100])
def test_what_a_chunk_left_in_memory_is_gone_with_the_next(every, monkeypatch):
    network = make(hidden=(16,), width=64, dtype=torch.float32)
    gradients = Gradients(network, Inputs.plain(64, 0.0), network.shape.layers())
    unwritten, made, alive = Traces.unwritten, [], []

    def counted(*arguments):
        traces = unwritten(*arguments)
        made.append(weakref.ref(traces.inward["encoder.0"]))
        alive.append(sum(each() is not None for each in made))
        return traces

    monkeypatch.setattr(Traces, "unwritten", counted)
    features = np.random.default_rng(0).normal(size=(5_000, 64)).astype(np.float32)
    wanted = gradients.wanted(np.arange(0, gradients.size, every) if every else None)
    next(gradients.means([SlideInput(features, 0, wanted)]))
    assert len(made) == 20 and max(alive) <= 2


@pytest.mark.slow
def test_a_long_slide_is_taken_in_chunks_with_bounded_memory(tmp_path):
    import tracemalloc

    network, peaks = make(hidden=(16,), width=64, dtype=torch.float32), []
    gradients = Gradients(network, Inputs.plain(64, 0.0), network.shape.layers())
    wanted = gradients.wanted(np.arange(0, gradients.size, 100))
    assert wanted.entries
    for rows in (2_000, 40_000):
        path = tmp_path / f"{rows}.npy"
        np.lib.format.open_memmap(path, "w+", dtype=np.float32, shape=(rows, 64))[:] = np.random.default_rng(
            rows
        ).normal(size=(rows, 64))
        tracemalloc.start()
        next(gradients.means([SlideInput(np.load(path, mmap_mode="r"), 0, wanted)]))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # The order of the patches is 8 bytes each; the patches themselves are 256 bytes each and are never held.
    assert peaks[1] - peaks[0] < 38_000 * 40
