"""A real server in a process of its own: what it answers, what it refuses, how it changes its policy, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shipped import MADE, experience, frozen, shipped

from tether.benchmark.serving import answer, load, serving
from tether.cli import main
from tether.errors import TetherError
from tether.policies import Policy
from tether.runtime import load_policy
from tether.runtime.experience import quantiles
from tether.serving.asking import Limits, answered
from tether.serving.holder import Held, hold
from tether.serving.server import _writer

pytest.importorskip("uvicorn")
TestClient = pytest.importorskip("fastapi.testclient").TestClient
INSIDE = [0.1, 0.2, 0.3]


def in_this_process(held: Held, limits: Limits | None = None, say: Callable[[str], None] = print) -> Any:
    from tether.serving.app import make_app

    return TestClient(make_app(held, limits or Limits(), say=say))


@pytest.fixture(scope="module")
def policy() -> Policy:
    return shipped("deterministic")


@pytest.fixture(scope="module")
def server(policy: Policy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """Its port and its folder. Ten rows and 5,000 bytes at most, a token, a log, the nearest action as fallback."""
    folder = tmp_path_factory.mktemp("served")
    policy.save(folder / "policy.safetensors")
    (folder / "token").write_text("open-sesame\n")
    limits = ["--most-rows", "10", "--most-bytes", "5000", "--fallback", "nearest", "--threshold", "0.01"]
    with serving(
        folder / "policy.safetensors", "--token-file", str(folder / "token"), "--log", str(folder / "seen.jsonl"), *limits
    ) as (
        process,
        port,
    ):
        yield port, folder
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
        assert "ended; everything that was asked is answered" in process.stdout.read()
    lines = [json.loads(line) for line in (folder / "seen.jsonl").read_text().splitlines()]
    assert lines[0].keys() == {"time", "observation", "action", "familiarity"}


def ask(port: int, body: Any, path: str = "/act", token: str | None = "open-sesame") -> tuple[int, Any]:
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            status, content = response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            status, content = error.code, error.read()
    text = content.decode()
    return status, json.loads(text) if text.startswith("{") else text


def test_one_observation_and_a_batch(server, policy):
    port, _ = server
    action, familiarity = policy.act(INSIDE, with_familiarity=True)
    status, found = ask(port, {"observation": INSIDE})
    assert status == 200
    np.testing.assert_allclose(found["action"], action, atol=1e-5)
    assert found["familiarity"] == pytest.approx(familiarity, abs=1e-5)
    assert (found["outside"], found["fallback"]) == ([], False)
    status, found = ask(port, {"observation": [INSIDE, [0.0, 90.0, 0.0]]})
    assert status == 200
    np.testing.assert_allclose(found["action"][0], action, atol=1e-5)
    assert found["outside"] == [[], ["1"]]
    assert found["fallback"] == [False, True]
    assert found["action"][1] in policy.experience.action.tolist()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "the body is not JSON"),
        (b"\xff\xfe", "the body is not JSON"),
        (b"[" * 4_000, "the body is not JSON"),
        (b'{"observation": [0.1, NaN, 0.3]}', r"has nan as number 1 \(counted from 0\)"),
        (b'{"observation": [0.1, 1e999, 0.3]}', r"has inf as number 1"),
        ([0.1, 0.2, 0.3], "must be a JSON object like"),
        ({}, "must be a JSON object like"),
        ({"observation": INSIDE, "fallback": "none"}, "the body has 'fallback'; it takes observation and nothing else"),
        ({"observation": None}, r"takes observations of shape \(3,\)"),
        ({"observation": [0.1, 0.2]}, r"takes observations of shape \(3,\) or \(B, 3\); got \(2,\)"),
        ({"observation": [[INSIDE]]}, r"got \(1, 1, 3\)"),
        ({"observation": [INSIDE, [1.0]]}, "not made of numbers"),
        ({"observation": ["0.1", "0.2", "0.3"]}, "text is not taken for numbers"),
        ({"observation": [None, 1, 2]}, "has nan as number 0"),
        ({"observation": [10**400, 1, 2]}, "not made of numbers"),
        ({"observation": {"speed": 1.0}}, "has columns by name"),
        ({"observation": []}, r"got \(0,\)"),
        ({"observation": [INSIDE] * 11}, "the batch has 11 rows; at most 10 are taken at once"),
        ({"observation": [0.1] * 3_000}, "the body has [0-9,]+ bytes; at most 5,000 are taken"),
    ],
)
def test_what_cannot_be_answered_gets_422_and_a_reason(server, body, reason):
    status, found = ask(server[0], body)
    assert status == 422
    assert re.search(reason, found["reason"]), found
    assert "Traceback" not in found["reason"]


def test_a_body_that_does_not_say_its_size_is_limited_too(server):
    async def chunked() -> tuple[int, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", server[0])
        writer.write(
            b"POST /act HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer open-sesame\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        writer.write(b"1000\r\n" + b" " * 4096 + b"\r\n" + b"1000\r\n" + b" " * 4096 + b"\r\n0\r\n\r\n")
        found = await answer(reader)
        writer.close()
        await writer.wait_closed()
        return found

    status, found = asyncio.run(chunked())
    assert (status, json.loads(found)["reason"]) == (422, "the body has more than 5,000 bytes, which are taken at most")


def test_the_token_is_asked_for_everywhere_but_at_health(server):
    port, _ = server
    for token in (None, "open", ""):
        status, found = ask(port, {"observation": INSIDE}, token=token)
        assert status == 401
        assert "Authorization" in found["reason"]
    assert ask(port, None, "/metrics", token=None)[0] == 401
    status, found = ask(port, None, "/health", token=None)
    assert (status, found["status"], found["familiarity"]["available"]) == (200, "ok", True)
    assert ask(port, None, "/nowhere")[0] == 404
    assert ask(port, None, "/act")[0] == 405


def test_prometheus_sees_requests_rows_and_familiarity(server):
    port, _ = server

    def value(name: str) -> float:
        found = re.search(rf"^{re.escape(name)} ([\d.e+-]+)$", ask(port, None, "/metrics")[1], re.MULTILINE)
        return float(found.group(1)) if found else 0.0

    names = ('tether_requests_total{path="/act",status="200"}', "tether_rows_total", "tether_unfamiliar_rows_total")
    names += ("tether_familiarity_count", 'tether_outside_range_rows_total{column="1"}', "tether_fallback_rows_total")
    before = [value(name) for name in names]
    ask(port, {"observation": [INSIDE, [0.0, 90.0, 0.0]]})
    assert [value(name) - was for name, was in zip(names, before, strict=True)] == [1, 2, 1, 2, 1, 1]
    text = ask(port, None, "/metrics")[1]
    assert text.count("# TYPE tether_request_seconds histogram") == 1
    assert 'tether_familiarity_bucket{le="+Inf"}' in text


def test_the_openapi_page_knows_the_sizes(server):
    status, found = ask(server[0], None, "/openapi.json", token=None)
    assert status == 200
    schema = found["paths"]["/act"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert schema["properties"]["observation"]["oneOf"][0]["minItems"] == 3


def test_a_new_file_is_served_without_dropping_a_request_and_a_bad_one_is_not(server, policy):
    port, folder = server
    path = folder / "policy.safetensors"
    whole = path.read_bytes()

    def wait_for(wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            found = ask(port, None, "/health", token=None)[1]
            if wanted(found):
                return found
            time.sleep(0.1)
        raise AssertionError(found)

    other = Policy(MADE["squashed-gaussian"][0], policy.spec, {"step": 9}, policy.experience)
    other.save(folder / "new.safetensors")
    statuses = []
    os.replace(folder / "new.safetensors", path)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        status, found = ask(port, {"observation": INSIDE})
        statuses.append(status)
        if np.allclose(found["action"], other(INSIDE), atol=1e-5):
            break
    assert set(statuses) == {200}
    np.testing.assert_allclose(found["action"], other(INSIDE), atol=1e-5)
    assert wait_for(lambda found: found["swaps"] == 1)["policy"]["step"] == 9

    path.write_bytes(whole[:-20])
    wait_for(lambda found: "cut short" in str(found["trouble"]))
    np.testing.assert_allclose(ask(port, {"observation": INSIDE})[1]["action"], other(INSIDE), atol=1e-5)
    shipped("greedy").save(folder / "new.safetensors")
    os.replace(folder / "new.safetensors", path)
    wait_for(lambda found: "of another task than what is served; restart to serve it" in str(found["trouble"]))
    path.unlink()
    wait_for(lambda found: "is not there any more" in str(found["trouble"]))
    assert ask(port, {"observation": INSIDE})[0] == 200
    path.write_bytes(whole)
    assert wait_for(lambda found: found["trouble"] is None)["swaps"] == 2
    np.testing.assert_allclose(ask(port, {"observation": INSIDE})[1]["action"], policy(INSIDE), atol=1e-5)


def test_a_policy_that_cannot_tell_when_to_fall_back_is_not_swapped_in(policy, tmp_path):
    path, seen = tmp_path / "policy.safetensors", policy.experience
    values, shares = quantiles(np.arange(60.0))
    named = {"columns": {"observation": ["a", "b", "c"], "action": ["left", "right"]}}
    Policy(policy.actor, policy.spec, named, seen).save(path)
    held = hold(path, threshold=0.01)
    others = {
        "cannot say how familiar an observation is, as what is served can": Policy(policy.actor, policy.spec, named),
        "familiarity is never below 0.016 here": Policy(
            policy.actor, policy.spec, named, replace(seen, values=values, shares=shares, pairs=60)
        ),
        "of another task than what is served": Policy(
            policy.actor, policy.spec, {"columns": named["columns"] | {"action": ["right", "left"]}}, seen
        ),
    }
    for number, (trouble, other) in enumerate(others.items(), start=1):
        other.save(tmp_path / "new.safetensors")
        os.replace(tmp_path / "new.safetensors", path)
        assert trouble in held.look()
        assert (trouble in held.trouble, held.failures, held.swaps) == (True, number, 0)
    few = others["familiarity is never below 0.016 here"]
    few.save(tmp_path / "few.safetensors")
    with pytest.raises(TetherError, match=r"familiarity is never below 0\.016 here"):
        hold(tmp_path / "few.safetensors", threshold=0.01)
    assert hold(tmp_path / "few.safetensors").threshold is None


def test_a_file_that_is_moved_away_and_back_is_served_again(policy, tmp_path):
    path = tmp_path / "policy.safetensors"
    policy.save(path)
    held = hold(path)
    path.rename(tmp_path / "away")
    assert "is not there any more" in held.look()
    assert held.look() is None
    (tmp_path / "away").rename(path)
    assert "has changed and is served from now on" in held.look()
    assert held.trouble is None


def test_a_file_that_comes_while_it_is_read_is_seen(policy, tmp_path, monkeypatch):
    path = tmp_path / "policy.safetensors"
    policy.save(path)
    policy.save(tmp_path / "new.safetensors")

    def read_and_replaced(place: Path) -> Any:
        found = load_policy(place)
        os.replace(tmp_path / "new.safetensors", path)
        return found

    monkeypatch.setattr("tether.serving.holder.load_policy", read_and_replaced)
    held = hold(path)
    monkeypatch.undo()
    assert "has changed and is served from now on" in held.look()


def test_nothing_ends_the_looking(policy, tmp_path, monkeypatch):
    policy.save(tmp_path / "policy.safetensors")
    held, said = hold(tmp_path / "policy.safetensors"), []
    monkeypatch.setattr("tether.serving.app.SECONDS_BETWEEN_LOOKS", 0.01)
    looks = iter([ValueError("a mistake"), "changed", "changed again"])

    def look() -> str | None:
        found = next(looks, None)
        if isinstance(found, Exception):
            raise found
        return found

    def say(text: str) -> None:
        said.append(text)
        raise OSError("the terminal is gone")

    monkeypatch.setattr(held, "look", look)
    with in_this_process(held, say=say) as client:
        end = time.monotonic() + 10
        while len(said) < 3 and time.monotonic() < end:
            time.sleep(0.01)
        assert "cannot be looked at: ValueError: a mistake" in client.get("/health").json()["trouble"]
    assert said[1:] == ["changed", "changed again"]


def test_a_number_too_large_for_the_policy_gets_422(tmp_path):
    path = tmp_path / "policy.safetensors"
    shipped("tethered").save(path)
    asked = {"observation": [0.1, 3.4e38, 0.2]}
    with in_this_process(hold(path)) as client:
        answer = client.post("/act", json=asked)
        assert answer.status_code == 422
        assert answer.json()["reason"].startswith("the observation has 3.4e+38 as number 1 (counted from 0), too large")
    with in_this_process(hold(path), Limits(nearest=True)) as client:
        answer = client.post("/act", json=asked).json()
        assert (answer["fallback"], answer["familiarity"]) == (True, pytest.approx(1 / 401))
        assert "tether_familiarity_sum 0.00" in client.get("/metrics").text


def test_a_log_that_was_cut_goes_on_with_a_whole_line(policy, tmp_path):
    path, said = tmp_path / "seen.jsonl", []
    path.write_text('{"time": 1, "observation": [0, 0, 0]}\n{"time": ')
    policy.save(tmp_path / "policy.safetensors")
    plain = hold(tmp_path / "policy.safetensors").policy
    with ExitStack() as stack:
        _writer(path, stack, said.append)(answered(plain, np.zeros((1, 3), "f4"), True, Limits()))
    assert [list(json.loads(line)) for line in path.read_text().splitlines()] == [
        ["time", "observation"],
        ["time", "observation", "action", "familiarity"],
    ]
    with ExitStack() as stack:
        write = _writer(Path("/dev/full"), stack, said.append)
        write(answered(plain, np.zeros((1, 3), "f4"), True, Limits()))
    assert said == ["the last lines of the log /dev/full were not written: [Errno 28] No space left on device"]


def test_a_request_in_flight_is_answered_after_sigterm(policy, tmp_path):
    policy.save(tmp_path / "policy.safetensors")
    body = json.dumps({"observation": INSIDE}).encode()

    async def interrupted(process: Any, port: int) -> tuple[int, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /act HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:10])
        await writer.drain()
        await asyncio.sleep(0.5)  # it has begun to read
        process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.5)  # it has begun to end
        writer.write(body[10:])
        found = await answer(reader)
        writer.close()
        await writer.wait_closed()
        return found

    with serving(tmp_path / "policy.safetensors") as (process, port):
        found = asyncio.run(load(port, INSIDE, clients=4, requests=40))
        assert (found["requests"], found["failures"]) == (40, 0)
        status, content = asyncio.run(interrupted(process, port))
        assert status == 200
        np.testing.assert_allclose(json.loads(content)["action"], policy(INSIDE), atol=1e-5)
        assert process.wait(timeout=30) == 0


def test_under_load_neither_a_new_file_nor_the_end_loses_a_request(policy, tmp_path):
    """Eight clients ask without a pause while the file is replaced, and until they are told to close their connection."""
    path = tmp_path / "policy.safetensors"
    policy.save(path)
    whole, body = path.read_bytes(), json.dumps({"observation": INSIDE}).encode()
    request = b"POST /act HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    statuses: list[int] = []

    async def client(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = ""
        while "connection: close" not in head:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()  # a request without an answer raises here
            await reader.readexactly(int(re.search(r"content-length: (\d+)", head).group(1)))
            statuses.append(int(head.split()[1]))
        writer.close()
        await writer.wait_closed()

    async def whole_of_it(process: Any, port: int) -> None:
        clients = [asyncio.create_task(client(port)) for _ in range(8)]
        for _ in range(3):
            (tmp_path / "new.safetensors").write_bytes(whole)
            os.replace(tmp_path / "new.safetensors", path)
            before = len(statuses)
            while len(statuses) < before + 100:
                await asyncio.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        await asyncio.gather(*clients)

    with serving(path) as (process, port):
        asyncio.run(whole_of_it(process, port))
        assert process.wait(timeout=30) == 0
    assert len(statuses) >= 300
    assert set(statuses) == {200}


# What the command refuses before it serves


def test_a_mistake_is_one_message(tmp_path, capsys):
    shipped("deterministic").save(tmp_path / "policy.safetensors")
    path = str(tmp_path / "policy.safetensors")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["serve", path, "--port", str(taken.getsockname()[1])]) == 2
    assert re.search(
        r"^error: cannot listen at 127\.0\.0\.1 port \d+: Address already in use; --port chooses", capsys.readouterr().err
    )
    (tmp_path / "empty").write_text("")
    actor, spec = MADE["deterministic"]
    Policy(actor, spec, {"no_familiarity": "it was trained without a bonus"}).save(tmp_path / "plain.safetensors")
    for arguments, message in [
        ([path, "--port", "70000"], "--port is 70000; it takes 0 to 65,535"),
        ([path, "--threshold", "2"], "--threshold is 2.0; familiarity is between 0 and 1"),
        ([path, "--most-rows", "0"], "both must be at least 1"),
        ([path, "--token-file", str(tmp_path / "empty")], "must hold one word, the token"),
        ([path, "--token-file", str(tmp_path / "gone")], "cannot read the token"),
        ([str(tmp_path / "gone.safetensors")], "there is no policy file"),
        ([str(tmp_path / "plain.safetensors"), "--fallback", "nearest"], "it was trained without a bonus"),
    ]:
        assert main(["serve", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert experience(frozen("rnd", spec)).pairs == 400
