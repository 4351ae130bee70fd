"""Text finds the described class, through every front end; engines that cannot read it say so in one line."""

import json
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from bench.text_search import PATIENTS, QUERIES
from slideseek import open as open_archive
from slideseek.config import parse_config
from slideseek.engine import make_engine, pack_resolved, unpack_resolved
from slideseek.errors import PluginError, UsageError
from slideseek.hookspecs import hookimpl
from slideseek.interfaces import EncodesText
from slideseek.plugins import load_registry
from slideseek.searching.request import Request
from slideseek.types import Code, CodeSpec
from slideseek_components.encoders.mean import Mean
from slideseek_components.featurizers.colour_texture import ColourTexture

CHANCE = 1 / len(QUERIES)


@dataclass
class Worded(ColourTexture, EncodesText):
    """Colours and texture, with text drawn at random; short: rows of text lack one value."""

    short: bool = False

    def encode_text(self, texts):
        rows = [np.random.default_rng(list(text.encode())).random(self.width - self.short) for text in texts]
        return np.stack(rows).astype(np.float32)


@dataclass
class SlideWords(Mean, EncodesText):
    """The mean, with text of its own; bits: codes are bits, which no text has."""

    bits: bool = False

    def spec(self, width):
        return CodeSpec("bits", 8) if self.bits else CodeSpec("float", width)

    def encode(self, bag):
        return Code(bag.slide_id, np.zeros((1, 1), np.uint8)) if self.bits else Mean.encode(self, bag)

    def encode_text(self, texts):
        return np.ones((len(texts), ColourTexture().width), np.float32)


class Plugin:
    @hookimpl
    def register_featurizers(self, register):
        register("worded", f"{__name__}:Worded", "with text")

    @hookimpl
    def register_encoders(self, register):
        register("slide-words", f"{__name__}:SlideWords", "with text")


def engine(featurizer='"colour-texture"', encoder='"mean"', index="cosine", more=""):
    sys.modules.setdefault(__name__, sys.modules[Worded.__module__])
    text = f'[[engine]]\nname = "e"\nselector = "grid"\nfeaturizer = {featurizer}\nencoder = {encoder}\n'
    config = parse_config(f'{text}index = "{index}"\n{more}')
    return make_engine(config.engine(), load_registry(extra=[("words", Plugin())]))


class TestFront:
    pytestmark = pytest.mark.slow

    def test_the_command_line_finds_the_described_class(self, described, slideseek):
        shares = []
        for label, text in QUERIES.items():
            done = slideseek("search", "--text", text, "-a", described, "-k", PATIENTS, "--json")
            assert done.code == 0, done.err
            assert done.json["query"]["id"] == f'text "{text}"'
            shares.append(sum(hit["slide"]["label"] == label for hit in done.json["hits"]) / PATIENTS)
        assert np.mean(shares) >= 3 * CHANCE

    def test_a_session_finds_it_and_goes_on_from_there(self, described, slideseek, tmp_path):
        script = tmp_path / "script"
        script.write_text("k 4\nsearch --text adipose with empty white bubbles\nexplain 1\nmark 1 relevant\nmore\n")
        done = slideseek("session", "-a", described, "--script", script)
        assert done.code == 0, done.err
        first = done.out.partition("query ")[0]
        assert first.count("fat-") >= 3
        assert "similarity" in done.out and "marked relevant" in done.out

    def test_many_queries_the_log_and_its_replay(self, described, slideseek, tmp_path):
        lines = tmp_path / "queries.jsonl"
        lines.write_text(json.dumps({"text": QUERIES["muscle"], "kind": "text", "k": 2}) + "\nfat-0\n")
        done = slideseek("search", "--queries", lines, "-a", described)
        assert done.code == 0, done.err
        found = [json.loads(line) for line in done.out.splitlines()]
        assert found[0]["hits"][0]["slide"]["label"] == "muscle" and found[1]["query"]["id"] == "fat-0"
        assert f"{QUERIES['muscle']} (text)" in slideseek("history", "-a", described).out

    def test_python_and_evidence(self, described):
        with open_archive(described) as archive:
            result = archive.search(QUERIES["glands"], kind="text", k=3)
            evidence = archive.explain(result, result[0].record.id)
        assert evidence.kind == "contributions" and len(evidence.hit_parts) > 4
        assert float(evidence.hit_parts.sum()) == pytest.approx(1 - result[0].hit.distance, abs=1e-4)

    def test_pictures_and_reports_show_the_hit_alone(self, described, slideseek, tmp_path):
        text = QUERIES["carcinoma"]
        panel, shapes = tmp_path / "why.png", tmp_path / "why.geojson"
        done = slideseek("explain", "--text", text, "carcinoma-0", "-a", described, "-o", panel, "--geojson", shapes)
        assert done.code == 0, done.err
        assert panel.stat().st_size > 1000
        assert (tmp_path / "why.hit.geojson").exists() and not (tmp_path / "why.query.geojson").exists()
        assert "patch of text" not in done.out and "patch of carcinoma-0" in done.out
        assert slideseek("search", "--text", text, "-a", described).code == 0
        page = tmp_path / "page.html"
        done = slideseek("report", "-a", described, "-o", page, "--identified")
        assert done.code == 0, done.err
        assert "text has none" in page.read_text()

    def test_filters_and_sites_apply(self, described, slideseek):
        done = slideseek("search", "--text", QUERIES["fat"], "-a", described, "--where", "label!=fat", "--json")
        assert "fat" not in {hit["slide"]["label"] for hit in done.json["hits"]}
        done = slideseek("search", "--text", QUERIES["fat"], "-a", described, "--vertical", "--json")
        assert done.code == 2 and "site" in done.err
        done = slideseek("search", "--text", QUERIES["fat"], "-a", described, "--vertical", "--site", "body", "--json")
        assert done.json["hits"][0]["slide"]["label"] == "fat"

    def test_an_engine_of_images_refuses_text(self, described, slideseek):
        done = slideseek("search", "--text", "fat", "-a", described, "--engine", "images-only")
        assert done.code == 2
        assert "cannot be queried with text: neither its featurizer nor its encoder encodes text" in done.err
        assert "docs/how-to/text-search.md" in done.err


class TestEngine:
    """Text is compared with codes only where it has a meaning among them."""

    def test_text_of_a_featurizer_is_a_bag_of_one(self):
        made = engine('"worded"')
        code, bag = made.encode_text("fat", "t")
        assert made.resolved.no_text == ""
        np.testing.assert_allclose(code.rows, bag.features, rtol=1e-6)

    def test_text_of_an_encoder_has_no_patches(self):
        made = engine(encoder='"slide-words"')
        code, bag = made.encode_text("fat", "t")
        assert made.resolved.no_text == "" and len(bag) == 0 and code.rows.shape == (1, made.width)

    @pytest.mark.parametrize(
        ("parts", "why"),
        [
            ({"featurizer": '"colour-texture"'}, "neither its featurizer nor its encoder encodes text"),
            ({"featurizer": '"worded"', "encoder": '"max"'}, "are not in the space of the features"),
            ({"featurizer": '"worded"', "encoder": '"yottixel"', "index": "hamming"}, "are not in the space"),
            ({"encoder": '{ use = "slide-words", bits = true }', "index": "hamming"}, "its codes are 8 bits"),
            ({"encoder": '"slide-words"', "more": 'rerank = "set-cosine"'}, "its reranker compares patches"),
        ],
    )
    def test_otherwise_it_says_why(self, parts, why):
        given = {"featurizer": '"colour-texture"', "encoder": '"mean"', **parts}
        assert why in engine(**given).resolved.no_text

    def test_a_row_of_another_width_names_the_plugin(self):
        with pytest.raises(PluginError, match=r"featurizer 'worded' .* not float32 \(1, "):
            engine('{ use = "worded", short = true }').encode_text("fat", "t")

    def test_what_is_recalled_of_engines_built_before(self):
        made = engine('"worded"')
        packed = pack_resolved(made.resolved)
        assert unpack_resolved(packed).no_text == ""
        del packed["no_text"]
        assert unpack_resolved(packed) == made.resolved and unpack_resolved(packed).no_text


class TestRefused:
    def test_in_one_line_without_loading_anything(self, tiny_archive, slideseek):
        done = slideseek("search", "--text", "fat", "-a", tiny_archive)
        assert done.code == 2 and "cannot be queried with text" in done.err

    def test_without_words(self, tiny_archive, slideseek):
        done = slideseek("search", "--text", "-a", tiny_archive)
        assert done.code == 2 and "with --text, words" in done.err

    @pytest.mark.parametrize("options", [["--patch"], ["--case"], ["--region", "0,0,9,9"]])
    def test_with_another_kind(self, tiny_archive, slideseek, options):
        done = slideseek("search", "--text", "fat", "-a", tiny_archive, *options)
        assert done.code == 2 and "cannot be used together" in done.err

    def test_with_a_calibration(self, tiny_archive, slideseek):
        assert "says nothing about text" in slideseek("search", "--text", "a", "-a", tiny_archive, "--calibrate").err

    @pytest.mark.parametrize(("text", "mpp"), [("  ", None), ("x" * 2001, None), ("fat", 0.5)])
    def test_nonsense(self, text, mpp):
        with pytest.raises(UsageError, match="1 to 2000 characters"):
            Request(text=text, kind="text", mpp=mpp)

    def test_text_that_names_a_file_stays_text(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "fat").touch()
        assert Request(text="fat", kind="text").absolute().text == "fat"
        assert Request.unpack(Request(text="fat", kind="text").pack()).kind == "text"
