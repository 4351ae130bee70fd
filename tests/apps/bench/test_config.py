"""Benchmark configurations: what is a sweep, what is refused, and what the command line may change."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from slideseek.errors import UsageError
from slideseek.plugins import KINDS, load_registry
from slideseek_apps.bench.bundled_configs import FOLDER, bundled_configs, find_config
from slideseek_apps.bench.config import parse_bench_config
from slideseek_apps.bench.overrides import quick, with_absolute_paths, with_data, with_settings
from slideseek_apps.bench.protocol import Protocol
from slideseek_apps.bench.sweeps import expand_sweeps

REGISTRY = load_registry(kinds=KINDS)


def config(text: str, base: Path = Path("/data")):
    dataset = '[dataset]\nkind = "bags"\npath = "x.npz"\n'
    return parse_bench_config(tomllib.loads(text + dataset), base, "test", REGISTRY)


def variants(encoder: str) -> list[str]:
    made = config(f'[[engine]]\nname = "e"\nencoder = {encoder}\n')
    return [variant.name for variant in expand_sweeps(made.engines[0], REGISTRY)]


class TestSweeps:
    def test_a_list_where_a_number_is_wanted_sweeps(self):
        assert variants('{ use = "deep-sbfv", bits = [500, 5000] }') == ["e bits=500", "e bits=5000"]

    def test_a_list_where_a_list_is_wanted_does_not(self):
        assert variants('{ use = "deep-fv", hidden = [64, 32] }') == ["e"]

    def test_a_list_of_lists_sweeps_over_lists(self):
        assert variants('{ use = "deep-fv", hidden = [[64, 32], [8]] }') == ["e hidden=64x32", "e hidden=8"]

    def test_several_sweeps_multiply(self):
        names = variants('{ use = "deep-sbfv", bits = [1, 2], lambda_sparse = [1e-5, 1e-3] }')
        assert names == [
            "e bits=1 lambda_sparse=1e-05",
            "e bits=1 lambda_sparse=0.001",
            "e bits=2 lambda_sparse=1e-05",
            "e bits=2 lambda_sparse=0.001",
        ]

    def test_words_sweep_too(self):
        assert len(variants('{ use = "deep-fv", preset = ["paper", "best"] }')) == 2

    def test_a_wrong_value_in_a_sweep_is_named(self):
        with pytest.raises(UsageError, match=r'engine\.e\.encoder\.bits: must be a valid integer, not "x"'):
            variants('{ use = "deep-sbfv", bits = [1, "x"] }')

    def test_the_seed_of_a_cell_reaches_nested_encoders(self):
        parts = '[{ use = "gmm-fv" }, { use = "deep-fv", preset = "best", seed = 5 }, "vlad", "mean"]'
        made = config(
            f'[[engine]]\nname = "e"\nencoder = {{ use = "projected", of = {{ use = "joined", of = {parts} }} }}\n'
        )
        encoder: Any = expand_sweeps(made.engines[0], REGISTRY)[0].make_encoder(7)
        inner = encoder.of.of
        assert (encoder.seed, inner[0].seed, inner[1].seed, inner[2].seed) == (7, 7, 5, 7)

    def test_a_swept_seed_reaches_nested_encoders(self):
        text = (
            '{ use = "projected", seed = [3, 4], of = { use = "joined", of = [{ use = "gmm-fv" }, { use = "mean" }] } }'
        )
        made = config(f'[[engine]]\nname = "e"\nencoder = {text}\n')
        found: list[Any] = [variant.make_encoder(0) for variant in expand_sweeps(made.engines[0], REGISTRY)]
        assert [(encoder.seed, encoder.of.of[0].seed) for encoder in found] == [(3, 3), (4, 4)]

    def test_a_wrong_nested_table_is_named_as_without_seeds(self):
        made = config('[[engine]]\nname = "e"\nencoder = { use = "projected", of = { name = "mean" } }\n')
        with pytest.raises(UsageError, match=r"engine\.e\.encoder\.of"):
            expand_sweeps(made.engines[0], REGISTRY)[0].make_encoder(0)

    def test_a_sweep_over_nothing_is_refused(self):
        with pytest.raises(UsageError, match="sweeps over nothing"):
            variants('{ use = "deep-sbfv", bits = [] }')


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no \\[\\[engine\\]\\]"),
        ('[[engine]]\nname = "a"\n', "needs a name and an encoder"),
        ('[[engine]]\nname = "a"\nencodr = "mean"\n', "did you mean 'encoder'"),
        ('[[engine]]\nname = "a"\nencoder = { percent = 5 }\n', "no 'use'"),
        ('[[engine]]\nname = "a"\nencoder = "mean"\n[[engine]]\nname = "a"\nencoder = "max"\n', "two engines"),
        ('seeds = []\n[[engine]]\nname = "a"\nencoder = "mean"\n', "seeds must be"),
        ('seeds = [0, 0]\n[[engine]]\nname = "a"\nencoder = "mean"\n', "seeds must be"),
        ('sedes = [0]\n[[engine]]\nname = "a"\nencoder = "mean"\n', "did you mean 'seeds'"),
        ('[[engine]]\nname = "a"\nencoder = "mean"\nprotocols = ["x"]\n', "no protocol 'x'"),
        ('[[protocol]]\nname = "p"\nmode = "diagonal"\n[[engine]]\nname = "a"\nencoder = "mean"\n', "protocol 1.mode"),
        ('[[protocol]]\nname = "p"\nfolds = 1\n[[engine]]\nname = "a"\nencoder = "mean"\n', "folds: 0"),
        ('[[protocol]]\nname = "p"\ntest = 0.4\n[[engine]]\nname = "a"\nencoder = "mean"\n', "fit: 'split'"),
        ('[protocol]\nname = "p"\n[[engine]]\nname = "a"\nencoder = "mean"\n', r"write \[\[protocol\]\]"),
    ],
)
def test_what_is_wrong_is_named(text, why):
    with pytest.raises(UsageError, match=why):
        config(text)


def test_a_dataset_is_needed_and_its_kind_is_known():
    engine = {"engine": [{"name": "a", "encoder": "mean"}]}
    with pytest.raises(UsageError, match="pass --data PATH"):
        parse_bench_config(engine, Path(), "test", REGISTRY)
    with pytest.raises(UsageError, match="did you mean 'bags'"):
        parse_bench_config(engine | {"dataset": {"kind": "bag", "path": "x"}}, Path(), "test", REGISTRY)


def test_where_a_protocol_looks_by_default():
    assert Protocol("p").among == "all"
    assert Protocol("p", fit="split").among == "training"
    assert Protocol("p", fit="split", candidates="test").among == "test"


class TestOverrides:
    DATA = config('[[engine]]\nname = "m"\nencoder = "mean"\n[[engine]]\nname = "d"\nencoder = "deep-fv"\n').data

    def test_an_option_reaches_every_engine_that_has_it(self):
        changed = with_settings(self.DATA, ["epochs=5", "l2=true", "m.l2=false"], REGISTRY)
        assert changed["engine"][0]["encoder"] == {"use": "mean", "l2": False}
        assert changed["engine"][1]["encoder"] == {"use": "deep-fv", "epochs": 5, "l2": True}

    def test_tables_protocols_and_seeds(self):
        given = ["seeds=[1, 2]", "protocol.folds=3", "dataset.site=lung", "guards.labels=false", "classifier.hidden=8"]
        changed = with_settings(self.DATA, given, REGISTRY)
        made = parse_bench_config(changed, Path(), "test", REGISTRY)
        assert (made.seeds, made.protocols[0].folds, made.dataset["site"]) == ((1, 2), 3, "lung")
        assert (made.guards.off, made.classifier.hidden) == (["labels"], 8)

    @pytest.mark.parametrize(
        ("given", "why"),
        [
            ("epochs", "not KEY=VALUE"),
            ("epocs=5", "no engine has an option 'epocs'"),
            ("m.epochs=5", "engine 'm' has no option 'epochs'"),
            ("x.epochs=5", "no engine 'x'"),
        ],
    )
    def test_what_no_engine_knows_is_refused(self, given, why):
        with pytest.raises(UsageError, match=why):
            with_settings(self.DATA, [given], REGISTRY)

    def test_quick_is_short(self):
        made = parse_bench_config(quick(dict(self.DATA) | {"seeds": [3, 4]}, REGISTRY), Path(), "test", REGISTRY)
        assert (made.seeds, made.protocols[0].folds) == ((3,), 2)
        assert made.engines[1].encoder["epochs"] == 2
        assert "epochs" not in made.engines[0].encoder

    def test_other_data(self, tmp_path):
        (tmp_path / "mil.csv").touch()
        notes: list[str] = []
        assert with_data(self.DATA, tmp_path / "mil.csv", None, REGISTRY, notes.append)["dataset"]["kind"] == "bag-csv"
        assert with_data(self.DATA, tmp_path, "tcga", REGISTRY, notes.append)["dataset"]["kind"] == "tcga"
        with pytest.raises(UsageError, match="pass --data PATH too"):
            with_data(self.DATA, None, "tcga", REGISTRY, notes.append)
        with pytest.raises(UsageError, match=r"no dataset named 'tgca': did you mean 'tcga'\?"):
            with_data(self.DATA, tmp_path, "tgca", REGISTRY, notes.append)
        assert notes == []

    def test_paths_become_absolute_and_text_stays(self, tmp_path):
        data = {"dataset": {"kind": "tcga", "path": "f", "table": "t.csv", "label": "project_id"}}
        whole = with_absolute_paths(data | {"protocol": [{"name": "p", "split": "s.csv"}]}, tmp_path, REGISTRY)
        assert whole["dataset"]["table"] == str(tmp_path / "t.csv")
        assert whole["dataset"]["label"] == "project_id"
        assert whole["protocol"][0]["split"] == str(tmp_path / "s.csv")


class TestBundled:
    def test_all_of_the_paper_is_there(self):
        assert list(bundled_configs()) == ["figure2", "figure3", "table1-tcga", "table1", "table2", "table3", "table4"]

    @pytest.mark.parametrize("name", [path.stem for path in FOLDER.glob("*.toml")])
    def test_each_is_sound(self, name):
        made = parse_bench_config(
            find_config(name).data | {"dataset": {"kind": "bags", "path": "x"}}, Path(), name, REGISTRY
        )
        grid = [variant for engine in made.engines for variant in expand_sweeps(engine, REGISTRY)]
        for variant in grid:
            variant.make_encoder(0).spec(1024)
        assert len({variant.name for variant in grid}) == len(grid)
        assert made.name == name

    def test_table_1_has_the_six_engines_and_mean(self):
        engines = {engine["encoder"]["use"] for engine in find_config("table1").data["engine"]}
        assert engines == {"yottixel", "c-gmm-fv", "deep-fv", "deep-sfv", "deep-bfv", "deep-sbfv", "mean"}

    @pytest.mark.parametrize("name", [path.stem for path in FOLDER.glob("*.toml")])
    def test_networks_get_standardised_features(self, name):
        """Features of very different scales make the paper's networks diverge."""
        encoders = [engine["encoder"] for engine in find_config(name).data["engine"]]
        assert all(encoder["standardise"] and encoder["clip"] == 5 for encoder in encoders if "preset" in encoder)

    def test_a_wrong_name_is_answered_with_the_nearest(self):
        with pytest.raises(UsageError, match="did you mean 'table1'"):
            find_config("tabel1")
