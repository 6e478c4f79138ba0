"""Ctrl-C that waits for the epoch under way, so that what is saved is whole. A second one does not wait.

Python hears a signal only between two of its own steps, and a compilation is one step that may take a minute. So a thread of its
own watches for signals: it answers at once, and it ends the process where a second one finds Python still busy. Files are
replaced whole, so nothing is damaged by that.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ANSWER = "stopping as soon as the epoch under way is saved; Ctrl-C again stops at once"
GRACE = 2.0  # seconds that Python gets to hear a second signal by itself


class StopRequest:
    """Whether the user has asked to stop."""

    def __init__(self) -> None:
        self.asked = False
        self.insisted = threading.Event()  # a second time, and Python has heard it

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            self.insisted.set()
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def stop_on_interrupt() -> Iterator[StopRequest]:
    """Inside the block, the first SIGINT or SIGTERM only sets `asked`."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():  # Python delivers signals to the main thread only
        yield request
        return
    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    former = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(reading, request), daemon=True)
    watcher.start()
    try:
        yield request
    finally:
        signal.set_wakeup_fd(former)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(writing)  # which ends the watcher
        watcher.join()
        os.close(reading)


def _watch(reading: int, request: StopRequest) -> None:
    heard = 0
    while signals := os.read(reading, 1):
        if signals[0] not in (signal.SIGINT, signal.SIGTERM):
            continue
        heard += 1
        if heard == 1:
            print(ANSWER, file=sys.stderr, flush=True)
        elif not request.insisted.wait(GRACE):
            os._exit(128 + signals[0])
