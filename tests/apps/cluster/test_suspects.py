"""Which slides are to blame for workers that died."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from slideseek_apps.cluster.dask_worker import Floor
from slideseek_apps.cluster.suspects import DEATHS_ALONE, MOST_ROUNDS, Suspects


@dataclass(eq=False)
class Slide:
    slide_id: str

    def read(self) -> Iterator[Any]:
        raise NotImplementedError("only its name is asked for")

    def compute(self, read: Iterator[Any]) -> Iterator[Any]:
        raise NotImplementedError("only its name is asked for")


def test_a_slide_is_to_blame_for_workers_that_die_while_it_is_alone():
    suspects, slide = Suspects(), Slide("a")
    assert suspects.next() is None and suspects.killed(slide) == "wait" and len(suspects) == 1
    assert suspects.next() is slide and suspects.next() is None and not len(suspects)
    for number in range(DEATHS_ALONE):
        assert number == 0 or suspects.killed(slide) == "again", "one death per round, where a site allows no failure"
        suspects.heard({"begun": str(number)})
    assert suspects.killed(slide) == "blame"


def test_workers_that_die_before_it_begins_do_not_count():
    suspects, slide, other = Suspects(), Slide("a"), Slide("b")
    suspects.killed(slide)
    suspects.killed(other)
    assert suspects.next() is slide
    assert [suspects.killed(slide) for _ in range(3)] == ["again"] * 3
    suspects.done(slide)
    assert suspects.next() is other, "the next one is tried when the first is done"
    verdicts = [suspects.killed(other) for _ in range(MOST_ROUNDS)]
    assert verdicts == ["again"] * (MOST_ROUNDS - 1) + ["blame"], "a cluster that never begins ends too"


def test_a_slide_that_is_alone_waits_for_the_others_and_keeps_them_out():
    floor, inside, most = Floor(), [], []

    def work(name, alone):
        with floor.entered(alone):
            inside.append(name)
            most.append(set(inside))
            time.sleep(0.01)
            inside.remove(name)

    threads = [threading.Thread(target=work, args=(number, number % 4 == 0)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(most) == 24 and not inside
    assert all(len(together) == 1 for together in most if any(name % 4 == 0 for name in together))
    assert any(len(together) > 1 for together in most)
