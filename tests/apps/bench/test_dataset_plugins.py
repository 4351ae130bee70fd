"""Kinds of data from plugins that are not bundled: found, named when they fail, and never in the way of the others."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from slideseek.errors import PluginError, UsageError
from slideseek.hookspecs import hookimpl
from slideseek.plugins import KINDS, load_registry
from slideseek.types import Bag, SlideRecord
from slideseek_apps.bench.datasets import Source, guess_kind, load_dataset


@dataclasses.dataclass(frozen=True)
class Dots:
    """One feature per line of a text file. scale: multiplies it."""

    path: Path
    scale: float = 1.0

    @classmethod
    def recognises(cls, path):
        return path.suffix == ".dots"

    def load(self, registry):
        values = [float(line) * self.scale for line in self.path.read_text().split()]
        records = [SlideRecord(f"s{i}", "", f"p{i}", "lung", "ab"[i % 2]) for i in range(len(values))]
        xy = np.zeros((1, 2), np.int32)
        bags = {r.id: Bag(r.id, np.array([[v]], np.float32), xy, "lung") for r, v in zip(records, values)}
        return Source(self.path.stem, tuple(records), bags)


class AlsoDots(Dots):
    pass


class Mute(Dots):
    """It can be loaded, but it does not say what it recognises."""

    recognises = None  # type: ignore[assignment]


class CrashesWhenAsked(Dots):
    @classmethod
    def recognises(cls, path):
        raise ZeroDivisionError("oops\nsecond line")


class ExitsWhenAsked(Dots):
    @classmethod
    def recognises(cls, path):
        raise SystemExit(3)


class CrashesWhenLoaded(Dots):
    def load(self, registry):
        raise KeyError("no such key")


@dataclasses.dataclass(frozen=True)
class CrashesWhenMade(Dots):
    def __post_init__(self):
        raise RuntimeError("not today")


@dataclasses.dataclass(frozen=True)
class Refuses(Dots):
    def __post_init__(self):
        raise ValueError("scale: at least 1, not 0")


class ReturnsAList(Dots):
    def load(self, registry):
        return []


class ReturnsNames(Dots):
    def load(self, registry):
        return Source("names", ("s0", "s1"), {})  # type: ignore[arg-type]


class Prints(Dots):
    def load(self, registry):
        print("hello")
        return super().load(registry)


def plugin(**kinds):
    """A plugin that registers classes of this module, or import strings, as kinds of data."""

    class Plugin:
        @hookimpl
        def register_datasets(self, register):
            for name, kind in kinds.items():
                target = kind if isinstance(kind, str) else f"{__name__}:{kind.__name__}"
                register(name.replace("_", "-"), target, "a test")

    return Plugin()


def registry(*plugins, **kinds):
    return load_registry(extra=[*plugins, ("odd", plugin(**kinds))], kinds=KINDS)


@pytest.fixture
def dots(tmp_path):
    path = tmp_path / "x.dots"
    path.write_text("1\n2\n3\n4\n")
    return path


def load(dots, kind, **options):
    return load_dataset(kind.__name__, {"path": str(dots), **options}, Path(), registry(**{kind.__name__: kind}))


def test_a_kind_is_loaded_with_its_options(dots):
    data = load(dots, Dots, scale=2.0)
    assert data.bags["s3"].features.tolist() == [[8.0]]


def test_a_wrong_option_names_the_right_one(dots):
    with pytest.raises(UsageError, match=r"dataset\.scal: no option 'scal' in dataset 'Dots': did you mean 'scale'\?"):
        load(dots, Dots, scal=2.0)
    with pytest.raises(UsageError, match=r'dataset\.scale: must be a valid number, not "x"'):
        load(dots, Dots, scale="x")
    with pytest.raises(UsageError, match=r"dataset\.scale: at least 1, not 0"):
        load(dots, Refuses)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (CrashesWhenLoaded, "crashed while loading the data (KeyError: 'no such key')"),
        (CrashesWhenMade, "crashed while loading the data (RuntimeError: not today)"),
        (ReturnsAList, "load() did not return a Source of slide records"),
        (ReturnsNames, "load() did not return a Source of slide records"),
    ],
)
def test_a_kind_that_fails_is_named(dots, kind, why):
    with pytest.raises(PluginError) as caught:
        load(dots, kind)
    assert f"dataset {kind.__name__!r} of odd -" in caught.value.cause
    assert why in caught.value.cause
    assert "\n" not in caught.value.cause


def test_a_missing_file_is_named_with_the_kind(tmp_path):
    with pytest.raises(PluginError, match=r"dataset 'Dots' of odd - crashed .*nothing\.dots"):
        load(tmp_path / "nothing.dots", Dots)


def test_what_a_kind_prints_does_not_mix_with_results(dots, capsys):
    load(dots, Prints)
    assert capsys.readouterr() == ("", "hello\n")


def test_an_unknown_kind_may_be_of_a_broken_plugin(dots):
    def broken(register):
        raise RuntimeError("boom")

    class Broken:
        register_datasets = staticmethod(hookimpl(broken))

    known = registry(("bad", Broken()), dots=Dots)
    with pytest.raises(
        PluginError, match=r"dataset\.kind: no dataset named 'dost': .*or did you mean 'dots'\?"
    ) as caught:
        load_dataset("dost", {"path": str(dots)}, Path(), known)
    assert "1 broken: see 'slideseek plugins list'" in caught.value.fix
    (dots.parent / "x.bin").touch()
    with pytest.raises(UsageError, match=r"no kind of data recognises .*1 broken: see 'slideseek plugins list'"):
        guess_kind(dots.parent / "x.bin", known, print)


class TestGuess:
    def guess(self, path, **kinds):
        notes: list[str] = []
        return guess_kind(path, registry(**kinds), notes.append), notes

    def test_a_kind_recognises_its_data(self, dots):
        assert self.guess(dots, dots=Dots) == ("dots", [])

    def test_two_kinds_that_recognise_it_are_named(self, dots):
        with pytest.raises(UsageError, match="can be read as also-dots or as dots") as caught:
            self.guess(dots, dots=Dots, also_dots=AlsoDots)
        assert caught.value.fix == "pass --dataset also-dots or --dataset dots"

    @pytest.mark.parametrize(
        ("kind", "why"),
        [
            (CrashesWhenAsked, "crashed while looking at {path} (ZeroDivisionError: oops second line)"),
            (ExitsWhenAsked, "crashed while looking at {path} (SystemExit: 3)"),
            ("no_such_module:X", "cannot be imported from 'no_such_module:X'"),
        ],
    )
    def test_a_kind_that_cannot_be_asked_is_noted_and_the_others_decide(self, dots, kind, why):
        found, notes = self.guess(dots, dots=Dots, broken=kind)
        assert found == "dots"
        (note,) = notes
        assert "dataset 'broken' of odd -" in note
        assert why.format(path=dots) in note
        assert note.endswith("this kind of data was not considered")

    def test_a_kind_without_the_method_is_not_asked(self, dots):
        assert self.guess(dots, dots=Dots, mute=Mute) == ("dots", [])

    def test_a_kind_registered_twice_is_noted(self, dots):
        notes: list[str] = []
        twice = load_registry(
            extra=[("one", plugin(dots=Dots)), ("two", plugin(dots=Dots, more=AlsoDots))], kinds=KINDS
        )
        assert guess_kind(dots, twice, notes.append) == "more"
        (note,) = notes
        assert "dataset 'dots' is registered twice, by one - and by two -" in note


def test_the_command_runs_on_it(dots, slideseek, tmp_path, monkeypatch):
    import slideseek.plugins as plugins

    installed = plugins.load_registry
    odd = ("odd", plugin(dots=Dots, broken=CrashesWhenAsked))
    monkeypatch.setattr(plugins, "load_registry", lambda kinds=KINDS: installed(extra=[odd], kinds=kinds))
    assert slideseek("bench", "run", "--list", "--json").json["datasets"]["dots"] == "a test"
    (tmp_path / "bench.toml").write_text('[[engine]]\nname = "mean"\nencoder = "mean"\n')
    done = slideseek("bench", "run", tmp_path / "bench.toml", "--data", dots, "-o", tmp_path / "out", "--json")
    assert done.code == 0, done.err
    assert "note    dataset 'broken' of odd - crashed while looking at" in done.err
    assert json.loads(done.out)["dataset"]["slides"] == 4
    done = slideseek("bench", "run", tmp_path / "bench.toml", "--data", dots, "--dataset", "dost")
    assert done.code == 2
    assert done.err.splitlines() == ["error: dataset.kind: no dataset named 'dost'", "  fix: did you mean 'dots'?"]
