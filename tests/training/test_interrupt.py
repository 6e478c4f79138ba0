"""The first signal is a request, the second an order, and what was there before comes back."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from tether.training.interrupt import ANSWER, stop_on_interrupt

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_only_asks(number: signal.Signals):
    with stop_on_interrupt() as stop:
        assert not stop.asked
        signal.raise_signal(number)
        assert stop.asked


@pytest.mark.parametrize("number", SIGNALS)
def test_the_second_signal_interrupts(number: signal.Signals):
    with stop_on_interrupt():
        signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


@pytest.mark.parametrize("fails", [False, True])
def test_the_handlers_from_before_come_back(fails: bool):
    before = [signal.getsignal(number) for number in SIGNALS]
    try:
        with stop_on_interrupt():
            assert [signal.getsignal(number) for number in SIGNALS] != before
            if fails:
                raise RuntimeError
    except RuntimeError:
        pass
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_block_inside_another_has_its_own_request():
    with stop_on_interrupt() as outer:
        with stop_on_interrupt() as inner:
            signal.raise_signal(signal.SIGINT)
        assert inner.asked
        assert not outer.asked


def test_outside_the_main_thread_nothing_is_caught_and_nothing_breaks():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with stop_on_interrupt() as stop:
            seen.append((stop.asked, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, before)]


def test_it_answers_at_once_and_a_second_time_ends_what_python_cannot_hear():
    """Inside one call of a library that takes minutes and looks at no signal, as a compilation does."""
    program = """
import hashlib, os, signal, threading, time
from tether.training import interrupt

interrupt.GRACE = 0.1
def twice():
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)

with interrupt.stop_on_interrupt():
    threading.Thread(target=twice, daemon=True).start()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 128 + signal.SIGINT
    assert ANSWER in done.stderr
