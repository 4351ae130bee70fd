"""Tasks shared out between threads."""

import functools
import multiprocessing
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

from slideseek_components.encoders.deep.device import free_threads, reproducible
from slideseek_components.single_core import run_tasks, single_core_pool


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_every_task_runs_once(threads, count):
    done: list[int] = []
    run_tasks([functools.partial(done.append, i) for i in range(count)], threads)
    assert sorted(done) == list(range(count))


def test_tasks_run_at_the_same_time():
    meeting, met = threading.Barrier(3, timeout=30), []
    run_tasks([lambda: met.append(meeting.wait())] * 3, 3)
    assert sorted(met) == [0, 1, 2]


@pytest.mark.parametrize("fails_in_main", [True, False])
def test_after_an_error_the_tasks_under_way_end_and_no_other_begins(fails_in_main):
    meeting, failed, log = threading.Barrier(2, timeout=30), threading.Event(), []

    def task():
        meeting.wait()
        if (threading.current_thread() is threading.main_thread()) == fails_in_main:
            failed.set()
            raise ArithmeticError("a task failed")
        failed.wait(30)
        log.append("ended")

    with pytest.raises(ArithmeticError, match="a task failed"):
        run_tasks([task] * 2 + [lambda: log.append("began")] * 50, 2)
    assert log[0] == "ended" and log.count("ended") == 1
    assert log.count("began") < 50  # the other thread may take some before the list is emptied


def test_every_task_computes_on_one_core_whatever_others_set():
    """A thread takes over the number of cores that another has set at its first question."""
    before, stop, seen = free_threads(), threading.Event(), []

    def meddle():
        while not stop.is_set():
            torch.set_num_threads(4)

    other = threading.Thread(target=meddle)
    other.start()
    try:
        for threads in range(2, 7):
            meeting = threading.Barrier(threads, timeout=30)

            def task(meeting=meeting):
                meeting.wait()
                if threading.current_thread() is not threading.main_thread():
                    seen.append(torch.get_num_threads())

            run_tasks([task] * threads, threads)
    finally:
        stop.set()
        other.join()
        torch.set_num_threads(before)
    assert set(seen) == {1}


def test_the_callers_settings_are_left_alone():
    before = free_threads()
    with reproducible(1):
        run_tasks([lambda: None] * 9, 9)
    assert free_threads() == before
    found = []
    fresh = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    fresh.start()
    fresh.join()
    assert found == [before]


def test_tasks_see_what_the_caller_has_set_for_numpy():
    meeting, seen = threading.Barrier(2, timeout=30), []

    def task():
        meeting.wait()
        seen.append(np.geterr()["over"])

    with np.errstate(over="raise"):
        run_tasks([task] * 2, 2)
    assert seen == ["raise", "raise"]


def test_a_forked_process_has_threads_and_locks_of_its_own():
    run_tasks([threading.Event().set] * 2, 2)
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with reproducible(1):
            inside.set()
            leave.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait(30)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()

    def child():
        with reproducible(1):
            run_tasks([lambda: answers.put("done")] * 2, 2)

    process = context.Process(target=child, daemon=True)
    process.start()
    try:
        assert [answers.get(timeout=60) for _ in range(2)] == ["done", "done"]
    finally:
        leave.set()
        holder.join()
    process.join(30)
    assert process.exitcode == 0


def test_works_while_the_interpreter_ends():
    script = """
import threading, time
from slideseek_components.single_core import run_tasks
run_tasks([int] * 2, 2)
def late():
    threading.main_thread().join()
    done = []
    run_tasks([lambda: done.append(1)] * 3, 2)
    print(len(done))
threading.Thread(target=late).start()
"""
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (answer.stdout.strip(), answer.stderr) == ("3", "")


def test_an_interrupt_while_threads_start_leaves_none_waiting(monkeypatch):
    real = threading.Barrier.wait

    def interrupted(barrier, timeout=None):
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return real(barrier, timeout)

    monkeypatch.setattr(threading.Barrier, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        single_core_pool(2, "interrupted")
    waiting = [one for one in threading.enumerate() if one.name.startswith("interrupted")]
    for one in waiting:
        one.join(5)
    assert not [one for one in waiting if one.is_alive()]
