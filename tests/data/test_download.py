"""Downloading from a real server on this machine, with real D4RL excerpts and everything that can go wrong on the way."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pendulum import files_of_at_most

from tether.cli import main
from tether.data import load_dataset
from tether.data.named import download as downloading
from tether.data.named.catalogue import known_datasets
from tether.data.named.download import download
from tether.errors import TetherError

NAME = "hopper-medium-v0"


@dataclass
class Served:
    """What the server has, and how it behaves."""

    content: bytes
    etag: str = '"first"'
    ranges: bool = True  # whether it can send a part
    cuts: list[int] = field(default_factory=list)  # after so many bytes of the next answers, the connection ends
    status: int = 200
    redirect: str | None = None
    pause: float = 0.0  # seconds before each block of 10,000 bytes
    length: bool = True  # whether it says how much is to come
    asked: list[str | None] = field(default_factory=list)  # the ranges that were asked for

    url: str = ""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        served: Served = self.server.served  # type: ignore[attr-defined]
        wanted = self.headers.get("Range")
        served.asked.append(wanted)
        if served.redirect:
            self.send_response(302)
            self.send_header("Location", served.redirect)
            self.end_headers()
            return
        if served.status != 200:
            self.send_error(served.status)
            return
        start = 0
        if served.ranges and wanted and self.headers.get("If-Range") in (None, served.etag):
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if start >= len(served.content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if served.length:
            self.send_header("Content-Length", str(len(served.content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(served.content) - 1}/{len(served.content)}")
        if served.etag:
            self.send_header("ETag", served.etag)
        self.end_headers()
        end = start + served.cuts.pop(0) if served.cuts else len(served.content)
        with suppress(ConnectionError):  # the reader may leave
            for block in range(start, end, 10_000):
                time.sleep(served.pause)
                self.wfile.write(served.content[block : min(block + 10_000, end)])
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(shared_data: Path) -> Iterator[Served]:
    """A server with the excerpt of hopper-medium-v0, 43,433 bytes."""
    with serving(Served((shared_data / "d4rl_excerpts" / "hopper_medium.hdf5").read_bytes())) as it:
        yield it


@contextmanager
def serving(served: Served) -> Iterator[Served]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.served = served  # type: ignore[attr-defined]
    served.url = f"http://127.0.0.1:{server.server_port}/hopper_medium.hdf5"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TETHER_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@dataclass
class Shown:
    """Stands where the progress bar would be."""

    total: int
    at: list[int]

    def update(self, step: int) -> None:
        self.at.append(step)


def fetch(served: Served, **options: object) -> tuple[dict, list[Shown]]:
    shown: list[Shown] = []

    @contextmanager
    def show(total: int, start: int) -> Iterator[Shown]:
        shown.append(Shown(total, [start]))
        yield shown[-1]

    return download(known_datasets()[NAME], show, served.url, wait=0.0, **options), shown  # type: ignore[arg-type]


def refusal(served: Served, **options: object) -> str:
    with pytest.raises(TetherError) as caught:
        fetch(served, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_arrives_whole_with_its_record(served, folder):
    record, shown = fetch(served)
    assert (folder / f"{NAME}.hdf5").read_bytes() == served.content
    assert json.loads((folder / f"{NAME}.json").read_text()) == record
    assert (record["name"], record["url"], record["size"], record["transitions"]) == (NAME, served.url, 43_433, 524)
    assert record["sha256"] == hashlib.sha256(served.content).hexdigest()
    assert sorted(path.name for path in folder.iterdir()) == [f"{NAME}.hdf5", f"{NAME}.json"]
    assert [(bar.total, bar.at[0], bar.at[-1]) for bar in shown] == [(43_433, 0, 43_433)]
    dataset = load_dataset(NAME)
    assert dataset.sha256 == record["sha256"]
    assert dataset.provenance == {"url": served.url, "downloaded": record["downloaded"]}


def test_a_cut_connection_is_taken_up_where_it_ended(served, folder):
    served.cuts = [10_000, 5_000]
    _, shown = fetch(served)
    assert served.asked == [None, "bytes=10000-", "bytes=15000-"]
    assert [(bar.total, bar.at[0]) for bar in shown] == [(43_433, 0), (43_433, 10_000), (43_433, 15_000)]
    assert (folder / f"{NAME}.hdf5").read_bytes() == served.content


def test_a_connection_that_is_always_cut_leaves_what_the_next_command_goes_on_from(served, folder):
    served.cuts = [10_000, 5_000, 0, 0]
    message = refusal(served)
    assert message == f"{served.url}: 15 kB of 43.4 kB had arrived when the connection ended; the same command goes on from there"
    assert [path.name for path in folder.iterdir()] == [f".{NAME}.partial"]
    with pytest.raises(TetherError, match="is not on this machine"):
        load_dataset(NAME)
    served.asked.clear()
    fetch(served)
    assert served.asked == ["bytes=15000-"]
    assert (folder / f"{NAME}.hdf5").read_bytes() == served.content


def test_a_connection_cut_within_the_first_bytes(served, folder):
    served.cuts = [0, 3]
    fetch(served)
    assert served.asked == [None, None, "bytes=3-"]
    assert (folder / f"{NAME}.hdf5").read_bytes() == served.content


def test_a_server_that_cannot_send_parts_sends_all_again(served, folder):
    served.ranges, served.cuts = False, [10_000]
    _, shown = fetch(served)
    assert [bar.at[0] for bar in shown] == [0, 0]
    assert (folder / f"{NAME}.hdf5").read_bytes() == served.content


def test_a_file_that_changed_in_between_starts_anew(served, folder, shared_data):
    """The two halves of two files must never be put together."""
    served.cuts = [10_000, 0, 0, 0]
    refusal(served)
    served.content = (shared_data / "d4rl_excerpts" / "hopper_random-v1.hdf5").read_bytes()
    served.etag = '"second"'
    fetch(served)
    assert (folder / f"{NAME}.hdf5").read_bytes() == served.content


def test_another_address_starts_anew(served, folder):
    served.cuts = [10_000, 0, 0, 0]
    refusal(served)
    served.url += "?mirror"
    served.asked.clear()
    fetch(served)
    assert served.asked == [None]


def test_a_file_that_is_shorter_now_starts_anew(served, folder, shared_data):
    served.etag, served.cuts = "", [40_000, 0, 0, 0]
    refusal(served)
    served.content = (shared_data / "d4rl_excerpts" / "hopper_random-v1.hdf5").read_bytes()  # 32,566 bytes
    fetch(served)
    assert (folder / f"{NAME}.hdf5").read_bytes() == served.content


def test_a_server_that_does_not_say_how_much_is_to_come(served, folder):
    served.length = False
    fetch(served)
    assert (folder / f"{NAME}.hdf5").read_bytes() == served.content


@pytest.mark.parametrize(("status", "reason"), [(404, "Not Found"), (500, "Internal Server Error"), (503, "Service Unavailable")])
def test_a_server_that_refuses(served, folder, status, reason):
    served.status = status
    by_hand = f"a file from elsewhere can be put at {folder / NAME}.hdf5"
    assert refusal(served) == f"{served.url}: the server answers {status} {reason}; {by_hand}"
    assert list(folder.iterdir()) == []


def test_a_page_in_place_of_a_file_is_known_by_its_first_bytes(served, folder):
    served.content = b"<!DOCTYPE html><p>Moved to a new home" + bytes(10_000_000)
    expected = f"what {served.url} sends is no HDF5 file; it begins with b'<!DOCTYPE html><p>Moved to a new home\\x00\\x00\\x00'"
    assert refusal(served) == expected
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("halfcheetah_medium-v2", "17 observations and 6 actions a row .* where hopper has 11 and 3; a file of another task"),
        ("pen-human-v1", "45 observations and 24 actions a row .* where hopper has 11 and 3; a file of another task"),
    ],
)
def test_a_file_of_another_task_is_not_kept(served, folder, shared_data, file, reason):
    served.content = (shared_data / "d4rl_excerpts" / f"{file}.hdf5").read_bytes()
    assert re.search(rf"^what {served.url} sent is not {NAME}: {reason}; a file from elsewhere can be put at ", refusal(served))
    assert list(folder.iterdir()) == []


def test_damaged_content_is_not_kept(served, folder):
    served.content = served.content[:20_000] + bytes(1_000) + served.content[21_000:]
    assert f"sent is not {NAME}: a chunk of observations " in refusal(served)
    assert list(folder.iterdir()) == []


def test_what_this_machine_is_too_small_to_check_is_not_thrown_away(served, folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("tether.data.files.limits.available_memory", lambda: 1_000)
        assert "43.4 kB of 43.4 kB had arrived, but could not be checked: content: does not fit in memory" in refusal(served)
    served.asked.clear()
    fetch(served)
    assert served.asked == []
    assert (folder / f"{NAME}.hdf5").read_bytes() == served.content


def test_a_sha256_that_was_asked_for_must_be_met(served, folder):
    right = hashlib.sha256(served.content).hexdigest()
    assert f"its sha256 is {right}, not {'0' * 64}" in refusal(served, sha256="0" * 64)
    assert list(folder.iterdir()) == []
    fetch(served, sha256=right.upper())


def test_no_server_at_all(served, folder):
    served.url = "http://127.0.0.1:9/hopper_medium.hdf5"  # the port where everything is thrown away
    message = refusal(served)
    assert message.startswith(
        "cannot reach 127.0.0.1:9: Connection refused; is there a network? a file from elsewhere can be put at "
    )


def test_a_server_that_falls_silent(served, folder, monkeypatch):
    monkeypatch.setattr(downloading, "TIMEOUT", 0.2)
    served.pause = 0.5
    assert "had arrived when the connection ended; the same command goes on from there" in refusal(served)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.org/x", "hopper.hdf5", "http://"])
def test_only_http_is_spoken(served, folder, url):
    served.url = url
    assert refusal(served) == f"cannot download {url!r}; an address starts with https:// or http://"


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_a_redirection_leads_to_no_file_of_this_machine(served, folder, target):
    served.redirect = target
    message = refusal(served)
    assert "answers 302" in message or "unknown url type" in message
    assert list(folder.iterdir()) == []


def test_a_full_disk_keeps_what_has_arrived(served, folder):
    with files_of_at_most(20_000):
        message = refusal(served)
    assert message == f"cannot write {folder / f'.{NAME}.partial'}: File too large; TETHER_DATA names another folder"
    assert not (folder / f"{NAME}.hdf5").exists()
    served.asked.clear()
    fetch(served)
    assert served.asked == ["bytes=20000-"]
    assert (folder / f"{NAME}.hdf5").read_bytes() == served.content


def test_a_disk_without_room_is_noticed_before_anything_is_written(served, folder, monkeypatch):
    monkeypatch.setattr(downloading.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 40_000}))
    assert refusal(served) == f"43.4 kB are to come, 40 kB are free in {folder}; TETHER_DATA names another folder"
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made(served, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TETHER_DATA", str(tmp_path / "file"))
    assert re.search(r"cannot write to .*file/\.hopper-medium-v0\.partial: ", refusal(served))


def test_the_command(served, folder, capsys):
    assert main(["data", "download", f"d4rl/{NAME}", "--url", served.url]) == 0
    out, err = capsys.readouterr()
    sha256 = hashlib.sha256(served.content).hexdigest()
    assert out == f"{folder / NAME}.hdf5: 0.0 MB, 524 transitions, sha256 {sha256}\n"
    assert err.startswith(f"{NAME}: 0/0 MB")
    assert main(["data", "download", NAME, "--url", served.url]) == 0
    assert "is there already; left as it is" in capsys.readouterr().out
    assert len(served.asked) == 1
    assert main(["data", "download", NAME, "--sha256", sha256.upper()]) == 0
    assert main(["data", "download", NAME, "--sha256", "0" * 64]) == 2
    assert f"is there already, and its sha256 is {sha256}, not {'0' * 64}" in capsys.readouterr().err
    assert main(["data", "download", NAME, "--url", served.url, "--overwrite"]) == 0
    assert len(served.asked) == 2
    assert main(["data", "download", "hoper-medium-v0"]) == 2
    assert "did you mean hopper-medium-v0" in capsys.readouterr().err
    assert main(["data", "list"]) == 0
    assert re.search(r"hopper-medium +│ v0 v1 v2 │ v0 ", capsys.readouterr().out)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_command_goes_on_where_it_was(served, folder, number):
    served.pause = 0.3
    command = [sys.executable, "-m", "tether", "data", "download", NAME, "--url", served.url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        content = folder / f".{NAME}.partial" / "content"
        deadline = time.monotonic() + 20
        while not (content.exists() and content.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
    assert not (folder / f"{NAME}.hdf5").exists()
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert err.endswith("what has arrived is kept; the same command goes on from there\ninterrupted\n")
        assert "Traceback" not in err
    kept = content.stat().st_size
    assert 0 < kept < 43_433
    served.pause = 0.0
    served.asked.clear()
    fetch(served)
    assert served.asked == [f"bytes={kept}-"]
    assert (folder / f"{NAME}.hdf5").read_bytes() == served.content


def test_two_at_once_do_not_mix(served, folder):
    served.pause = 0.2
    outcomes: list[object] = []
    thread = threading.Thread(target=lambda: outcomes.append(fetch(served)[0]["size"]))
    thread.start()
    while not (folder / f".{NAME}.partial" / "content").exists():
        time.sleep(0.01)
    assert "another process is at work in" in refusal(served)
    thread.join()
    assert outcomes == [43_433]
