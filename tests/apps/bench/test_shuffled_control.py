"""The shuffled-label control falls to chance, and says so when it does not."""

import numpy as np
import pytest

from slideseek.types import SlideRecord
from slideseek_apps.bench.protocol import Protocol
from slideseek_apps.bench.ranked_lists import QueryHits, RankedHit
from slideseek_apps.bench.results import read_cells
from slideseek_apps.bench.shuffled_control import judge_control, shuffle_labels

VERTICAL = Protocol("v")


def records(patients: int = 30) -> list[SlideRecord]:
    return [
        SlideRecord(f"s{p}-{n}", "", f"p{p}", ("colon", "lung")[p % 2], f"{('colon', 'lung')[p % 2]}-{p % 3}")
        for p in range(patients)
        for n in range(1 + p % 2)
    ]


class TestShuffle:
    def test_patients_keep_together_and_sites_keep_their_labels(self):
        before, after = records(), shuffle_labels(records(), VERTICAL, seed=0)
        assert [r.id for r in after] == [r.id for r in before]
        assert len({(r.patient, r.label) for r in after}) == len({r.patient for r in before})
        assert all(r.label.startswith(r.site) for r in after)
        firsts = {r.patient: r for r in reversed(after)}
        assert sorted(r.label for r in firsts.values()) == sorted({r.patient: r.label for r in before}.values())
        assert sum(a.label != b.label for a, b in zip(after, before)) > len(before) / 3

    def test_the_seed_decides(self):
        one, same, other = (shuffle_labels(records(), VERTICAL, seed) for seed in (1, 1, 2))
        assert one == same
        assert one != other

    def test_horizontal_shuffles_the_site(self):
        after = shuffle_labels(records(), Protocol("h", mode="horizontal"), seed=0)
        assert [r.label for r in after] == [r.label for r in records()]
        assert [r.site for r in after] != [r.site for r in records()]


def answers(share: float, seed: int = 0) -> list[QueryHits]:
    """Queries of 60 patients and 3 classes, of which about `share` find their own class and the rest any."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(60):
        truth = f"class {number % 3}"
        vote = truth if rng.random() < share else f"class {rng.integers(3)}"
        hits = tuple(RankedHit(f"h{number}-{n}", vote) for n in range(3))
        made.append(QueryHits(f"q{number}", truth, hits, patient=f"p{number}", site="lung"))
    return made


class TestVerdict:
    def test_votes_without_the_truth_are_at_chance(self):
        verdict = judge_control(answers(0.0), VERTICAL, 0, controls=1)
        assert verdict.at_chance
        assert verdict.low < verdict.chance < verdict.high
        assert verdict.chance == pytest.approx(1 / 3, abs=0.02)
        assert "at chance" in str(verdict)

    def test_votes_that_know_are_above_chance(self):
        verdict = judge_control(answers(0.8), VERTICAL, 0, controls=20)
        assert not verdict.at_chance
        assert verdict.observed > verdict.high
        assert "labels leak" in str(verdict)

    def test_sound_engines_rarely_raise_an_alarm(self):
        alarms = sum(not judge_control(answers(0.0, seed), VERTICAL, 0, controls=1).at_chance for seed in range(40))
        assert alarms <= 2

    def test_a_collapsed_engine_is_at_chance(self):
        """An engine that always answers the largest class is as good as that class is large, and knows nothing."""
        queries = answers(0.0)
        always = tuple(RankedHit(f"h{n}", "class 0") for n in range(3))
        same = [QueryHits(q.query_id, q.label, always, patient=q.patient, site=q.site) for q in queries]
        assert judge_control(same, VERTICAL, 0, controls=1).at_chance


def test_the_command_adds_controls_and_tells_the_verdict(toy_bags_file, tmp_path, slideseek):
    (tmp_path / "b.toml").write_text(
        'seeds = [0, 1]\n[[protocol]]\nname = "v"\nfolds = 3\n'
        '[[engine]]\nname = "mean"\nencoder = "mean"\n[[engine]]\nname = "w"\nencoder = { use = "bovw", words = 3 }\n'
    )
    done = slideseek(
        "bench", "run", tmp_path / "b.toml", "--data", toy_bags_file, "-o", tmp_path / "o", "--control", "--json"
    )
    assert done.code == 0, done.err
    assert done.json["controls"].keys() == {f"{name}, v, seed 0, shuffled labels" for name in ("mean", "w")}
    assert all(verdict["at_chance"] for verdict in done.json["controls"].values())
    found = [(cell.name, cell.seed, cell.control) for cell in read_cells(tmp_path / "o")]
    assert sorted(found) == sorted(
        [(n, s, False) for n in ("mean", "w") for s in (0, 1)] + [("mean", 0, True), ("w", 0, True)]
    )
