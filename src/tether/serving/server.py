"""The process around the paths: its socket, its log, and an end in which everything that was asked is answered."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from tether.errors import TetherError
from tether.serving.asking import Answer, Ending, Limits
from tether.serving.holder import Held
from tether.storage import cut_unfinished_line

SECONDS_TO_LEAVE = 1.0  # after SIGTERM, in which clients are told to close their connections and their last requests come in
SECONDS_TO_END = 20  # that requests in flight have after that
MOST_AT_ONCE = 1_000  # connections; more are answered with 503


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens already, so that whoever connects from now on is answered."""
    if not 0 <= port <= 65_535:
        raise TetherError(f"--port is {port}; it takes 0 to 65,535")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # By its protocol asyncio knows it for TCP and turns off Nagle's wait, which would add 40 ms to every answer.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise TetherError(f"cannot listen at {host}: {error.strerror or error}") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(1_024)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise TetherError(f"cannot listen at {host} port {port}: {error.strerror or error}; --port chooses another") from error
    return listening


def serve(
    held: Held,
    listening: socket.socket,
    limits: Limits,
    token: str | None = None,
    log: Path | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Until SIGTERM or Ctrl-C. Requests that have come by then are answered."""
    try:
        import uvicorn

        from tether.serving.app import make_app
    except ImportError as error:
        raise TetherError(f"{error.name} is not installed; pip install 'tether-rl[serve]'") from error
    with ExitStack() as stack:
        write = None if log is None else _writer(log, stack, say)
        ending = Ending()
        config = uvicorn.Config(
            make_app(held, limits, token, write, say, ending),
            http="h11",
            log_level="warning",
            access_log=False,
            limit_concurrency=MOST_AT_ONCE,
            timeout_graceful_shutdown=SECONDS_TO_END,
        )
        stack.enter_context(_ending_quietly())
        server = uvicorn.Server(config)
        _leave_in_order(server, ending)
        server.run(sockets=[listening])


def _leave_in_order(server: Any, ending: Ending) -> None:
    """At SIGTERM, listen no more, and answer every request that still comes with the word to close the connection.

    uvicorn alone would close connections that are idle at that moment, and a request that is on its way over one would be lost.
    A second signal ends it at once.
    """
    at_once = server.handle_exit

    def leave(number: int, frame: Any) -> None:
        if ending.began:
            at_once(number, frame)
            return
        ending.began = True
        loop = asyncio.get_running_loop()

        def stop_listening() -> None:
            for listening in getattr(server, "servers", ()):
                listening.close()
            loop.call_later(SECONDS_TO_LEAVE, at_once, number, None)

        loop.call_soon_threadsafe(stop_listening)

    server.handle_exit = leave


@contextmanager
def _ending_quietly() -> Iterator[None]:
    """uvicorn ends in good order at SIGTERM and Ctrl-C, and then sends itself the signal once more: that one does nothing."""
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _close(file: TextIO, path: Path, say: Callable[[str], None]) -> None:
    """A log that cannot be written to its end must not make the end of the server a failure."""
    try:
        file.close()
    except OSError as error:
        with suppress(OSError):
            say(f"the last lines of the log {path} were not written: {error}")


def _writer(path: Path, stack: ExitStack, say: Callable[[str], None]) -> Callable[[Answer], None]:
    """Appends one line for each observation that was answered, for `tether watch`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            with path.open("a+b") as before:
                cut_unfinished_line(before)  # of a full disk or a power cut: the first line of now would continue it
        file = path.open("a", buffering=1 << 16, encoding="utf-8")
    except OSError as error:
        raise TetherError(f"cannot write the log {path}: {error.strerror or error}") from error
    stack.callback(_close, file, path, say)
    flushed = time.monotonic()

    def write(answer: Answer) -> None:
        nonlocal flushed
        now = time.time()
        known: Any = [None] * len(answer.rows) if answer.familiarity is None else answer.familiarity.tolist()
        for row, action, familiarity in zip(answer.rows.tolist(), answer.actions.tolist(), known, strict=True):
            line = {"time": round(now, 3), "observation": row, "action": action, "familiarity": familiarity}
            file.write(json.dumps(line) + "\n")
        if time.monotonic() - flushed > 1.0:
            file.flush()
            flushed = time.monotonic()

    return write
