"""Threads, forks, signals, and the memory that results are made in."""
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

import convoy


def _place(y):
    return y.__array_interface__["data"][0]


def test_a_large_result_s_memory_serves_again_when_nobody_holds_it(draw):
    x, w = draw(1, 1, 600, 600), draw(1, 1, 5, 5)
    convoy.release_memory()
    first = convoy.conv2d(x, w, math="exact")
    kept, place, part = first.copy(), _place(first), first[0, 0, 3:, 7]
    del first
    second = convoy.conv2d(-x, w, math="exact")
    assert _place(second) != place and np.array_equal(part, kept[0, 0, 3:, 7])
    window = memoryview(second)
    del part
    third = convoy.conv2d(x, w, math="exact")
    assert _place(third) == place and np.array_equal(third, kept)
    del second
    fourth = convoy.conv2d(x, w, math="exact")
    assert np.array_equal(np.asarray(window), -kept) and not np.shares_memory(fourth, window)
    assert convoy.conv2d(x, w, math="exact", out=third) is third


def test_threads_get_memory_of_their_own(draw):
    x, w = draw(1, 1, 600, 600), draw(1, 1, 5, 5)
    want, wrong = convoy.conv2d(x, w, math="exact").copy(), []

    def work(scale):
        for _ in range(10):
            if not np.array_equal(convoy.conv2d(scale * x, w, math="exact"), scale * want):
                wrong.append(scale)

    threads = [threading.Thread(target=work, args=(np.float32(2.0**i),)) for i in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


def test_many_threads_one_shape(draw):
    x, w = draw(1, 4, 40, 40), draw(4, 4, 7, 7)
    want = convoy.conv2d(x, w, math="exact")
    wrong = []

    def work():
        for _ in range(20):
            if not np.array_equal(convoy.conv2d(x, w, math="exact"), want):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


def test_other_threads_run_while_the_library_does(draw):
    x, w = draw(1, 16, 256, 256), draw(16, 16, 25, 25)
    convoy.conv2d(x, w, engine="direct")  # plans
    started, ended, ticks = threading.Event(), threading.Event(), []

    def tick():
        started.set()
        while not ended.wait(0.002):
            ticks.append(time.perf_counter())

    other = threading.Thread(target=tick)
    other.start()
    started.wait()
    begin = time.perf_counter()
    convoy.conv2d(x, w, engine="direct")
    end = time.perf_counter()
    ended.set()
    other.join()
    assert sum(begin < t < end for t in ticks) >= 5, f"{end - begin:.3f} s"


def test_after_fork(draw):
    x, w = draw(1, 4, 40, 40), draw(4, 4, 7, 7)
    want = convoy.conv2d(x, w, math="exact")
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        same = np.array_equal(convoy.conv2d(x, w, math="exact"), want) and np.array_equal(convoy.conv2d(x, w, padding=3, math="exact").shape, (1, 4, 40, 40))
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_memory_released_while_results_are_made():
    from convoy import _memory

    wrong, ended, interval = [], threading.Event(), sys.getswitchinterval()

    def work(me):
        while not ended.is_set():
            try:
                a, b = (_memory.numpy_result((300000,), 1200000) for _ in range(2))
                a[:], b[:] = me, -1
                if not (a == me).all():
                    wrong.append("two results share memory")
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    sys.setswitchinterval(1e-6)
    try:
        [t.start() for t in threads]
        until = time.monotonic() + 2
        while time.monotonic() < until:
            convoy.release_memory()
    finally:
        ended.set()
        [t.join() for t in threads]
        sys.setswitchinterval(interval)
    assert not wrong


def test_results_need_no_lock_that_is_held():
    from convoy import _memory

    with _memory._numpy.lock:  # as when a signal's handler interrupts the making of a result
        assert _memory.numpy_result((300000,), 1200000).shape == (300000,)


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals come in the main thread")
def test_an_interrupt_ends_tuning(draw):
    x, w = draw(1, 32, 256, 256), draw(32, 32, 15, 15)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with it ignored
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            convoy.tune(x, w, budget=20, progress=False)
            time.sleep(5)  # where tuning came to its end first
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
