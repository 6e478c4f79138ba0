"""Load on a server that this process starts on localhost: requests a second and latencies, by the number of clients.

A client keeps one connection and asks again as soon as it is answered. The number of requests is bounded.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tether.errors import TetherError

CLIENTS = (1, 16, 64)
SECONDS_TO_END = 30.0


@contextmanager
def serving(file: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server in a process of its own, and its port; told to end when the block does."""
    command = [sys.executable, "-m", "tether", "serve", str(file), "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            found = re.search(r"http://[\w.]+:(\d+)/act", line)
            if found is None:
                raise TetherError(f"the server did not start: {line}{process.stdout.read()}")
            yield process, int(found.group(1))
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(timeout=SECONDS_TO_END)
                except subprocess.TimeoutExpired:
                    process.kill()


def measure(
    file: Path, observation: list[float], requests: int, rounds: int, clients: tuple[int, ...] = CLIENTS
) -> list[dict[str, Any]]:
    """For each number of clients in turns: so many requests in all, in each round. Every round is kept."""
    found: dict[int, list[dict[str, Any]]] = {number: [] for number in clients}
    with serving(file) as (_, port):
        for _ in range(rounds):
            for number in clients:
                found[number].append(asyncio.run(load(port, observation, number, requests)))
    return [{"clients": number, "rounds": measured} for number, measured in found.items()]


async def load(port: int, observation: list[float], clients: int, requests: int) -> dict[str, Any]:
    """Requests that are split among the clients; what was not answered with 200 is counted."""
    body = json.dumps({"observation": observation}).encode()
    left, taken, failures = requests, [], 0

    async def client() -> None:
        nonlocal left, failures
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while left > 0:
                left -= 1
                began = time.perf_counter()
                status, _ = await ask(reader, writer, body)
                taken.append(time.perf_counter() - began)
                failures += status != 200
        finally:
            writer.close()
            await writer.wait_closed()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    seconds = time.perf_counter() - began
    middle, slow = np.quantile(taken, (0.5, 0.99)) * 1e3
    return {
        "requests": len(taken),
        "failures": failures,
        "requests_per_second": len(taken) / seconds,
        "milliseconds_median": float(middle),
        "milliseconds_p99": float(slow),
    }


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> tuple[int, bytes]:
    """One request over a connection that stays open: the status and the body of the answer."""
    writer.write(b"POST /act HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()
    return await answer(reader)


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
    return int(head.split()[1]), await reader.readexactly(int(length.group(1)) if length else 0)
