"""Tasks shared out between threads."""

import multiprocessing
import threading

import pytest
import torch

from slideseek_plugins.encoders.deep.device import free_threads, reproducible
from slideseek_plugins.encoders.deep.workers import run


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_results_come_in_the_order_of_the_tasks(threads, count):
    assert run([lambda i=i: i * i for i in range(count)], threads) == [i * i for i in range(count)]


def test_tasks_run_at_the_same_time():
    meeting = threading.Barrier(3, timeout=30)
    assert sorted(run([meeting.wait] * 3, 3)) == [0, 1, 2]


def test_an_error_of_any_task_is_raised():
    meeting = threading.Barrier(2, timeout=30)

    def fail_elsewhere():
        meeting.wait()
        if threading.current_thread() is not threading.main_thread():
            raise ArithmeticError("a task failed")

    with pytest.raises(ArithmeticError, match="a task failed"):
        run([fail_elsewhere] * 2, 2)


def test_every_matrix_product_runs_on_one_thread():
    before = free_threads()
    meeting = threading.Barrier(4, timeout=30)

    def threads_of_a_task():
        meeting.wait()
        return torch.get_num_threads()

    with reproducible(1):
        assert run([threads_of_a_task] * 4, 4) == [1] * 4
    assert free_threads() == before


def test_a_forked_process_has_threads_of_its_own():
    assert run([threading.get_ident] * 2, 2)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=lambda: answers.put(run([int] * 4, 2)), daemon=True)
    child.start()
    assert answers.get(timeout=60) == [0] * 4
    child.join(30)
    assert child.exitcode == 0
