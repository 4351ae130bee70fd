"""Two-stage search: the nearest slides by code, ordered again by their patches; options given with a query."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from slideseek.archive.archive import Archive
from slideseek.errors import ParameterError, PluginError, SlideseekError, UsageError
from slideseek.hookspecs import hookimpl
from slideseek.interfaces import Reranker
from slideseek.plugins import load_registry
from slideseek.searching.calibration import calibrate
from slideseek.searching.evidence import Explainer
from slideseek.searching.feedback import more_like_these
from slideseek.searching.request import Request
from slideseek.searching.searcher import Searcher
from slideseek.types import Bag, Float64

ENGINE = """
[[engine]]
name       = "{name}"
selector   = {{ use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }}
featurizer = {{ use = "colour-texture" }}
encoder    = {{ use = "{encoder}" }}
index      = {{ use = "{index}" }}
{rerank}
"""
RERANKED = (
    ENGINE.format(name="two", encoder="mean", index="cosine", rerank='rerank = { use = "median-of-min", depth = 4 }')
    + ENGINE.format(name="all", encoder="mean", index="cosine", rerank='rerank = { use = "set-cosine" }')
    + ENGINE.format(
        name="bits", encoder="yottixel", index="hamming", rerank='rerank = { use = "median-of-min", on = "barcodes" }'
    )
)


@pytest.fixture(scope="module")
def module_archive(tmp_path_factory, tiny_model):
    """The tiny archive with engines that re-rank: they share the features and the codes of those without."""
    base = tmp_path_factory.mktemp("reranked")
    root = shutil.copytree(tiny_model / "archive", base / "archive")
    with (root / "slideseek.toml").open("a") as config:
        config.write(RERANKED)
    return root


@pytest.fixture
def archive(module_archive):
    with Archive(module_archive) as opened:
        yield opened


def opened(archive, name):
    return Searcher.open(archive, name)


def hits(answer):
    return [(one.hit.slide_id, one.hit.distance) for one in answer.found]


def ids(answer):
    return [one.hit.slide_id for one in answer.found]


def by_definition(searcher, query, slide_ids, reranker=None):
    """Return (id, distance) by the reranker, nearest first, equal distances by id."""
    reranker = reranker or searcher.engine.reranker
    bags = [searcher.queries.stored(slide_id).bag() for slide_id in slide_ids]
    distances = reranker.distances(query.bag(), bags).tolist()
    return sorted(zip(slide_ids, distances), key=lambda pair: (pair[1], pair[0]))


@pytest.mark.parametrize("name", ["two", "all", "bits"])
@pytest.mark.parametrize("k", [1, 3, 99])
def test_the_order_is_that_of_the_definition(archive, name, k):
    searcher = opened(archive, name)
    plain = opened(archive, "bars" if name == "bits" else "mean")
    for slide_id in ("s0", "s5"):
        query = searcher.queries.stored(slide_id)
        nearest = ids(plain.search(query, max(k, searcher.engine.reranker.depth)))
        answer = searcher.search(query, k)
        assert hits(answer) == by_definition(searcher, query, nearest)[:k]
        assert [one.rank for one in answer.found] == list(range(1, len(answer.found) + 1))


def test_the_same_codes_serve_both_engines(archive):
    assert opened(archive, "two").stages.settings_digest(opened(archive, "two").engine, "encode") == opened(
        archive, "mean"
    ).stages.settings_digest(opened(archive, "mean").engine, "encode")


def test_more_hits_than_the_depth_are_all_compared(archive):
    searcher = opened(archive, "two")
    answer = searcher.search(searcher.queries.stored("s0"), 6)
    assert len(answer.found) == 6 > searcher.engine.reranker.depth
    assert "the 6 nearest of 7 candidates were re-ranked by 'median-of-min'" in answer.notes


def test_the_answer_says_so(archive):
    two, every, bits = (opened(archive, name) for name in ("two", "all", "bits"))
    answer = two.search(two.queries.stored("s0"), 2)
    assert "the 4 nearest of 7 candidates were re-ranked by 'median-of-min'" in answer.notes
    assert answer.unit == "1 - cosine" and answer.candidates == 7
    whole = every.search(every.queries.stored("s0"), 2)
    assert "all 7 candidates were re-ranked by 'set-cosine'" in whole.notes
    assert bits.search(bits.queries.stored("s0"), 2).unit == "differing bits"
    plain = opened(archive, "bars")
    answer = plain.search(plain.queries.stored("s0"), 2)
    assert answer.unit == "bits" and not any("re-ranked" in note for note in answer.notes)


def test_masks_and_patients_hold(archive):
    searcher = opened(archive, "all")
    query = searcher.queries.stored("s0")
    assert "s0" not in ids(searcher.search(query, 99))
    assert ids(searcher.search(query, 99, include_same_patient=True))[0] == "s0"
    assert set(ids(searcher.search(query, 99, "vertical"))) == {"s1", "s2", "s3"}
    assert set(ids(searcher.search(query, 99, where=["age>=54"]))) == {"s4", "s5", "s6", "s7"}
    assert not {"s0", "s3", "s6"} & set(ids(searcher.search(query, 99, exclude_center=True)))
    assert "all 3 candidates" in str(searcher.search(query, 99, "vertical").notes)
    nobody = searcher.search(query, 99, where=["age>=99"])
    assert nobody.found == [] and nobody.candidates == 0


def test_many_queries_are_re_ranked_too(archive):
    searcher = opened(archive, "two")
    queries = [searcher.queries.stored(slide_id) for slide_id in searcher.index.ids]
    for query, answer in zip(queries, searcher.search_many(queries, 3)):
        assert hits(answer) == hits(searcher.search(query, 3))


def test_a_region_a_patch_and_a_case_are_re_ranked(tiny_archive, tmp_path):
    with (tiny_archive / "slideseek.toml").open("a") as config:
        config.write(RERANKED)
    with Archive(tiny_archive) as archive:
        searcher = opened(archive, "two")
        row = archive.catalog.slides.get("s0")
        assert row is not None
        slide = archive.slide_path(row.record)
        for request in (
            Request(text="s0", kind="region", region="60,60,200,200"),
            Request(text=str(slide), kind="patch", mpp=1.0),
            Request(text="p0", kind="case"),
        ):
            result = request.run(searcher)
            compared = ids(opened(archive, "mean").search(result.query, 4 if request.k < 4 else 5))
            assert hits(result.answer) == by_definition(searcher, result.query, compared)
            why = Explainer(searcher).explain(result.query, result[0].hit.slide_id)
            assert why.kind == "pairs" and why.value == pytest.approx(result[0].hit.distance)


def test_feedback_compares_codes_and_says_so(archive):
    searcher, plain = opened(archive, "all"), opened(archive, "mean")
    query = searcher.queries.stored("s0")
    answer = more_like_these(searcher, query, ["s1"], ["s2"], 5)
    assert hits(answer) == hits(more_like_these(plain, plain.queries.stored("s0"), ["s1"], ["s2"], 5))
    assert "codes were compared, and not re-ranked by patches" in answer.notes
    assert not any("were re-ranked by" in note for note in answer.notes) and answer.unit == ""


def test_feedback_pushes_back_with_the_same_options(archive):
    """The distance to a rejected slide is measured as the distance to the query is."""
    searcher = opened(archive, "bars")
    query = searcher.queries.stored("s0")
    how = ["s1"], ["s2"], 7
    given = more_like_these(searcher, query, *how, options=["direction=target"])
    config = archive.config.engine("bars")
    assert config.index.options == {}
    searcher._live.index.inner.direction = "target"
    assert hits(given) == hits(more_like_these(searcher, query, *how))


def test_a_calibration_counts_re_ranked_votes(archive):
    searcher = opened(archive, "all")
    found = calibrate(searcher, Request(text="s0", k=3))
    expected: dict[float, list[int]] = {}
    for slide_id in searcher.index.ids:
        query = searcher.queries.stored(slide_id)
        vote = searcher.search(query, 3).votes["label"]
        counts = expected.setdefault(round(vote.confidence, 6), [0, 0])
        counts[0] += vote.value == query.record.label
        counts[1] += 1
    assert found["label"].shares == {share: tuple(counts) for share, counts in expected.items()}
    assert sum(n for _, n in found["label"].shares.values()) == 8


@pytest.mark.parametrize("options", [(), ("reranker.direction=symmetric",), ("depth=2",)])
@pytest.mark.parametrize("name", ["all", "bits"])
def test_pairs_explain_the_distance_shown(archive, name, options):
    searcher = opened(archive, name)
    query = searcher.queries.stored("s0")
    for one in searcher.search(query, 2, options=options).found:
        why = Explainer(searcher).explain(query, one.hit.slide_id, options)
        assert why.kind == "pairs" and why.value == pytest.approx(one.hit.distance, abs=1e-9)
        assert len(why.pairs) == len(query.bag()) and why.measure == searcher.engine.reranker.distance_name
        assert searcher.distance(query, one.hit.slide_id, options) == one.hit.distance


class TestOptions:
    def test_they_are_for_one_search(self, archive):
        searcher = opened(archive, "two")
        query = searcher.queries.stored("s0")
        before = hits(searcher.search(query, 3))
        deep = searcher.search(query, 3, options=["depth=99"])
        assert "all 7 candidates" in str(deep.notes)
        assert hits(deep) == by_definition(searcher, query, [one for one in searcher.index.ids if one != "s0"])[:3]
        assert hits(searcher.search(query, 3)) == before and searcher.engine.reranker.depth == 4

    def test_each_search_has_its_own(self, archive):
        searcher = opened(archive, "bars")
        query = searcher.queries.stored("s0")
        found = {
            direction: hits(searcher.search(query, 7, options=[f"direction={direction}"]))
            for direction in ("query", "target", "symmetric", "query")
        }
        assert hits(searcher.search(query, 7)) == found["query"]
        means = dict(found["symmetric"])
        both = (dict(found["query"]), dict(found["target"]))
        assert all(means[name] == pytest.approx((both[0][name] + both[1][name]) / 2) for name in means)

    def test_a_name_that_both_have_is_qualified(self, archive):
        searcher = opened(archive, "bits")
        query = searcher.queries.stored("s0")
        with pytest.raises(ParameterError, match=r"both the index.*index\.direction or reranker\.direction"):
            searcher.search(query, options=["direction=target"])
        reranked = searcher.search(query, 7, options=["reranker.direction=target"])
        assert hits(reranked) != hits(searcher.search(query, 7))
        # All candidates are compared, so the order of the first stage does not show.
        assert hits(searcher.search(query, 7, options=["index.direction=target"])) == hits(searcher.search(query, 7))

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("dept=5", "no option 'dept' that can be given with a query; did you mean 'depth'"),
            ("index.depth=5", "no option 'index.depth'"),
            ("store_=5", "no option 'store_'"),
            ("depth=0", "depth: at least 1"),
            ("depth=many", "depth: must be a valid integer"),
            ("depth=true", "depth: must be a valid integer"),
            ("depth=inf", "depth: must be a finite number"),
            ("depth=2020-01-01", "depth: date values are not allowed"),
            ("depth=" + "9" * 5000, "depth: must be a valid integer"),
            ("on=pixels", "on: must be 'features' or 'barcodes'"),
            ("depth", "is not NAME=VALUE"),
            ("=5", "is not NAME=VALUE"),
            ("depth=", "is not NAME=VALUE"),
        ],
    )
    def test_wrong_ones(self, archive, text, said):
        searcher = opened(archive, "two")
        with pytest.raises(ParameterError) as refused:
            searcher.search(searcher.queries.stored("s0"), options=[text])
        assert said in refused.value.cause and refused.value.parameter == "options"

    def test_the_last_of_two_counts(self, archive):
        searcher = opened(archive, "two")
        answer = searcher.search(searcher.queries.stored("s0"), 1, options=["depth=2", "depth=3"])
        assert "the 3 nearest" in str(answer.notes)

    def test_a_huge_depth_is_all_slides(self, archive):
        searcher = opened(archive, "two")
        assert len(searcher.search(searcher.queries.stored("s0"), 99, options=[f"depth={10**18}"]).found) == 7

    def test_the_command_line(self, module_archive, slideseek):
        told = slideseek("search", "s0", "-a", module_archive, "--engine", "two", "--set", "depth=2", "-k", 1, "--json")
        assert told.code == 0, told.err
        assert "the 2 nearest of 7 candidates were re-ranked by 'median-of-min'" in told.json["notes"]
        assert told.json["unit"] == "1 - cosine"
        wrong = slideseek("search", "s0", "-a", module_archive, "--engine", "two", "--set", "depht=2")
        assert wrong.code == 2 and "did you mean 'depth'" in wrong.err and "--set NAME=VALUE" in wrong.err

    def test_python(self, module_archive):
        import slideseek

        with slideseek.open(module_archive) as archive:
            found = archive.search("s0", engine="two", options={"on": "barcodes", "depth": 7})
            assert found.answer.unit == "differing bits"
            with pytest.raises(UsageError, match=r"at least 1.*pass options=\{NAME: VALUE\}"):
                archive.search("s0", engine="two", options={"depth": -1})

    def test_explain(self, module_archive, slideseek):
        how = ("-a", module_archive, "--engine", "two", "--set", "on=barcodes", "--json")
        hit = slideseek("search", "s0", "-k", 1, *how).json["hits"][0]
        told = slideseek("explain", "s0", hit["slide"]["id"], *how)
        assert told.code == 0, told.err
        assert told.json["evidence"]["kind"] == "pairs"
        assert told.json["evidence"]["value"] == pytest.approx(hit["distance"])
        wrong = slideseek("explain", "s0", "s1", "-a", module_archive, "--set", "dpeth=1")
        assert wrong.code == 2 and "pass --set NAME=VALUE" in wrong.err

    def test_a_search_follows_the_archive_first(self, tiny_archive, slideseek):
        """Options are applied to the index of the slides that are there now."""
        with Archive(tiny_archive) as archive:
            searcher = Searcher.open(archive, "bars")
            query = searcher.queries.stored("s0")
            assert len(searcher.search(query, 99, options=["direction=target"]).found) == 7
            assert slideseek("remove", "s7", "-a", tiny_archive).code == 0
            assert len(searcher.search(query, 99, options=["direction=target"]).found) == 6

    def test_an_engine_without_any_says_so(self, archive):
        from slideseek.searching.reranking import tune

        searcher = opened(archive, "bars")

        @dataclass
        class Bare:
            words: int = 3

        with pytest.raises(UsageError, match="no option 'words'") as refused:
            tune(searcher.index.with_inner(Bare()), None, ["words=4"], searcher.engine.owner)
        assert not isinstance(refused.value, ParameterError) and refused.value.fix.startswith("omit words")

    def test_a_check_that_fails_is_the_plugins_fault(self, archive):
        from slideseek.searching.reranking import tune

        @dataclass
        class Wrong:
            words: int = field(default=3, metadata={"at_query": True})

            def __post_init__(self) -> None:
                if self.words == 4:
                    raise TypeError("unsupported operand")

        searcher = opened(archive, "bars")
        with pytest.raises(PluginError, match=r"^index 'hamming' of slideseek .* failed in __post_init__\(\)"):
            tune(searcher.index.with_inner(Wrong()), None, ["words=4"], searcher.engine.owner)


@dataclass
class Toy(Reranker):
    """Does what a test asks for."""

    do: str = "equal"
    depth: int = field(default=5, metadata={"at_query": True})

    def distances(self, query: Bag, candidates: Sequence[Bag]) -> Float64:
        count = len(candidates)
        if self.do == "raise":
            raise KeyError("patch")
        if self.do == "exit":
            raise SystemExit(0)
        if self.do == "damaged":
            raise SlideseekError("slide 's3' is damaged", "build again")
        answers: dict[str, Any] = {
            "equal": np.zeros(count),
            "nan": np.full(count, np.nan),
            "inf": np.full(count, np.inf),
            "short": np.zeros(count - 1),
            "table": np.zeros((count, 1)),
            "list": [0.0] * count,
            "integers": np.zeros(count, int),
            "nothing": None,
        }
        answer: Float64 = answers[self.do]
        return answer


class ToyPlugin:
    @hookimpl
    def register_rerankers(self, register):
        register("toy", "tests_toy_reranker:Toy", "for tests")


def with_toy(tiny_archive, monkeypatch, do, more=""):
    import sys
    import types

    module = types.ModuleType("tests_toy_reranker")
    vars(module)["Toy"] = Toy
    monkeypatch.setitem(sys.modules, "tests_toy_reranker", module)
    monkeypatch.setattr(Toy, "__module__", __name__)
    with (tiny_archive / "slideseek.toml").open("a") as config:
        config.write(
            ENGINE.format(
                name="toy", encoder="mean", index="cosine", rerank=f'rerank = {{ use = "toy", do = "{do}"{more} }}'
            )
        )
    return load_registry(extra=[("toys", ToyPlugin())])


class TestPlugins:
    def test_equal_distances_are_ordered_by_id(self, tiny_archive, monkeypatch):
        registry = with_toy(tiny_archive, monkeypatch, "equal")
        with Archive(tiny_archive) as archive:
            searcher = Searcher.open(archive, "toy", registry)
            answer = searcher.search(searcher.queries.stored("s4"), 99)
            assert hits(answer) == [(f"s{number}", 0.0) for number in (0, 1, 2, 3, 5, 6, 7)]
            assert answer.unit == ""

    @pytest.mark.parametrize(
        ("do", "said"),
        [
            ("raise", r"failed in distances\(\) \(KeyError"),
            ("exit", r"failed in distances\(\)"),
            ("nan", "returned distances that are not finite"),
            ("inf", "returned distances that are not finite"),
            ("short", "did not return 2 distances"),
            ("table", "did not return 2 distances"),
            ("list", "did not return 2 distances"),
            ("integers", "did not return 2 distances"),
            ("nothing", "did not return 2 distances"),
        ],
    )
    def test_a_wrong_one_is_named(self, tiny_archive, monkeypatch, do, said):
        registry = with_toy(tiny_archive, monkeypatch, do, ", depth = 99")
        owner = next(entry for entry in registry.registrations("reranker") if entry.name == "toy").owner
        with Archive(tiny_archive) as archive, pytest.raises(PluginError, match=said) as refused:
            Searcher.open(archive, "toy", registry)  # tried on toy bags before any slide is searched
        assert f"reranker 'toy' of {owner}" in refused.value.cause

    def test_an_error_of_the_archive_stays_itself(self, tiny_archive, monkeypatch):
        registry = with_toy(tiny_archive, monkeypatch, "damaged")
        with Archive(tiny_archive) as archive, pytest.raises(SlideseekError, match="'s3' is damaged"):
            searcher = Searcher.open(archive, "toy", registry)
            searcher.search(searcher.queries.stored("s0"), 3)

    def test_one_that_measures_no_pairs_cannot_be_explained(self, tiny_archive, monkeypatch):
        registry = with_toy(tiny_archive, monkeypatch, "equal")
        with Archive(tiny_archive) as archive:
            searcher = Searcher.open(archive, "toy", registry)
            with pytest.raises(SlideseekError, match=r"reranker 'toy'.* does not say how it measures"):
                Explainer(searcher).explain(searcher.queries.stored("s0"), "s1")


@pytest.mark.parametrize(
    ("rerank", "said"),
    [
        ("rerank = 5", "engine.wrong.rerank"),
        ("rerank = { depth = 5 }", "engine.wrong.rerank"),
        ('rerank = { use = "median-of-mean" }', "no reranker named 'median-of-mean'"),
        ('rerank = { use = "median-of-min", deep = 5 }', "engine.wrong.rerank.deep: no option 'deep'"),
        ('rerank = { use = "median-of-min", depth = 0 }', "engine.wrong.rerank.depth: at least 1"),
        ('rerank = { use = "median-of-min", depth = "5" }', "engine.wrong.rerank.depth: must be a valid integer"),
        ('rerank = { use = "median-of-min", on = "pixels" }', "engine.wrong.rerank.on"),
        ('reranker = { use = "median-of-min" }', "reranker"),
    ],
)
def test_wrong_configurations(tiny_archive, slideseek, rerank, said):
    with (tiny_archive / "slideseek.toml").open("a") as config:
        config.write(ENGINE.format(name="wrong", encoder="mean", index="cosine", rerank=rerank))
    done = slideseek("search", "s0", "-a", tiny_archive, "--engine", "wrong")
    assert done.code == 2 and said in done.err


def test_features_that_are_gone_are_an_error_that_says_so(tiny_archive, slideseek):
    with (tiny_archive / "slideseek.toml").open("a") as config:
        config.write(RERANKED)
    with Archive(tiny_archive) as archive:
        searcher = opened(archive, "two")
        query = searcher.queries.stored("s0")
        query.bag()
        for file in (tiny_archive / "features").rglob("*.h5"):
            file.unlink()
        with pytest.raises(SlideseekError) as refused:
            searcher.search(query, 3)
        assert refused.value.fix
