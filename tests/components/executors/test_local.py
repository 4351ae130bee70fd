"""The executor of one process: in order, ahead, and patient up to a point."""

import threading
from dataclasses import dataclass
from typing import Any

import pytest

from slideseek.errors import SlideError
from slideseek_components.executors.local import Local


@dataclass
class Counting:
    """Work of `n` items; the third one fails when it is read."""

    n: int
    threads: set[str]

    @property
    def slide_id(self):
        return str(self.n)

    def read(self):
        for value in range(self.n):
            self.threads.add(threading.current_thread().name)
            yield value
        if self.n == 3:
            raise ValueError("three")

    def compute(self, read):
        for value in read:
            yield self.n, value


@pytest.mark.parametrize("workers", [0, 2])
def test_it_keeps_the_order_and_hands_on_errors(workers):
    seen: list[Any] = []
    threads: set[str] = set()
    with pytest.raises(ValueError, match="three"):
        for work, results in Local(workers, 10.0).run(Counting(n, threads) for n in (1, 2, 3, 4)):
            for one in results:
                assert one[0] == int(work.slide_id)
                seen.append(one)
    assert seen == [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]
    assert threads == ({threading.current_thread().name} if workers == 0 else {"slideseek-read"})


def test_a_work_that_hangs_is_given_up_and_the_next_goes_on():
    release = threading.Event()

    class Hanging(Counting):
        def read(self):
            if self.n == 1:
                release.wait(30)
            return super().read()

    seen: list[Any] = []
    for work, results in Local(1, 0.3).run([Hanging(1, set()), Hanging(2, set())]):
        if work.slide_id == "1":
            with pytest.raises(SlideError, match=r"reading hung \(no progress for 0.3 s\)"):
                list(results)
        else:
            seen += results
    release.set()
    assert seen == [(2, 0), (2, 1)]


def test_closing_it_ends_the_threads():
    def endless():
        while True:
            yield Counting(2, set())

    running = Local(2).run(endless())
    next(running)
    running.close()
    for thread in threading.enumerate():
        if thread.name == "slideseek-read":
            thread.join(5)
            assert not thread.is_alive()


@pytest.mark.parametrize(("options", "wrong"), [({"workers": -1}, "workers"), ({"patience": 0.0}, "patience")])
def test_options_out_of_range(options, wrong):
    with pytest.raises(ValueError, match=wrong):
        Local(**options)
