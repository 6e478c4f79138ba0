"""Fetching D4RL's files: resumed where they were cut, checked before they count, whole or not there.

The bytes that have arrived are kept in a folder `.NAME.partial` beside the file's place, with what the server said about them.
They are moved to that place when all have come and the file reads as a dataset of its task; size, sha256 and source are then
recorded in a JSON file beside it.
"""

from __future__ import annotations

import http.client
import os
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from tether.data.files.d4rl import sha256_of
from tether.data.files.limits import DoesNotFit, spelt_size
from tether.data.named.catalogue import KnownDataset, read_known
from tether.errors import TetherError
from tether.storage import exclusive, read_json, write_json

SIGNATURE = b"\x89HDF\r\n\x1a\n"
BLOCK = 2**18  # bytes
TIMEOUT = 30.0  # seconds without a byte
TRIES = 4  # in a row of a connection that ends too early; each goes on where the last one ended

_ENDED = (http.client.HTTPException, ConnectionError, TimeoutError)


class Bar(Protocol):
    """Shows how many bytes are there."""

    def update(self, step: int) -> None: ...


Show = Callable[[int, int], AbstractContextManager[Bar]]  # bytes in all, and at the start


def download(
    known: KnownDataset, show: Show, url: str | None = None, sha256: str | None = None, wait: float = 1.0
) -> dict[str, Any]:
    """Fetch the file to its place, or go on with what has arrived, and return its record. `url` is another place to get it from.

    `wait` is the pause in seconds before a connection that ended too early is made again.
    """
    url = known.url if url is None else url
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise TetherError(f"cannot download {url!r}; an address starts with https:// or http://")
    partial = known.path.with_name(f".{known.name}.partial")
    try:
        with exclusive(partial):
            transfer = _Transfer(known, url, partial)
            try:
                _fetch_all(transfer, show, wait)
                return transfer.finish(sha256)
            finally:
                if not transfer.size:  # in its place now, or nothing worth going on with
                    shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:  # the disk: what the network does is dealt with where it happens
        raise TetherError(f"cannot write {partial}: {error.strerror or error}; TETHER_DATA names another folder") from error


def _fetch_all(transfer: _Transfer, show: Show, wait: float) -> None:
    for attempt in range(TRIES):
        if transfer.fetch(show):
            return
        time.sleep(wait * attempt)
    raise TetherError(f"{transfer.progress()} when the connection ended; the same command goes on from there")


class _Transfer:
    """One file on its way into `folder`."""

    def __init__(self, known: KnownDataset, url: str, folder: Path) -> None:
        self.known, self.url = known, url
        self.content, self.about = folder / "content", folder / "about.json"
        stored = read_json(self.about) if self.about.exists() else {}
        self.total: int | None = None
        self.validator: str | None = None
        if isinstance(stored, dict) and stored.get("url") == url:
            self.total, self.validator = stored.get("total"), stored.get("validator")
        else:  # begun from elsewhere
            self.content.unlink(missing_ok=True)

    @property
    def size(self) -> int:
        return self.content.stat().st_size if self.content.exists() else 0

    def progress(self) -> str:
        total = "" if self.total is None else f" of {spelt_size(self.total)}"
        return f"{self.url}: {spelt_size(self.size)}{total} had arrived"

    def fetch(self, show: Show) -> bool:
        """Ask for what is missing and take what comes; whether that is all."""
        if self.total is not None and self.size == self.total:
            return True
        response = self._ask()
        with response:
            start = self._accept(response)
            with self.content.open("r+b" if start else "wb") as file, show(self.total or 0, start) as bar:
                file.truncate(start)
                file.seek(start)
                try:
                    block = response.read1(BLOCK) if start else _first_block(response, self.url)
                    while block:
                        file.write(block)
                        file.flush()  # what has arrived outlives a kill
                        bar.update(file.tell())
                        block = response.read1(BLOCK)
                except _ENDED:
                    pass
                os.fsync(file.fileno())
        return self.total is None or self.size == self.total

    def finish(self, sha256: str | None) -> dict[str, Any]:
        """Check that the file is what it should be, put it in its place, record it."""
        found = sha256_of(self.content)
        try:
            if sha256 is not None and found != sha256.lower():
                raise TetherError(f"its sha256 is {found}, not {sha256}")
            dataset = read_known(self.known, self.content)
        except DoesNotFit as error:
            raise TetherError(f"{self.progress()}, but could not be checked: {error}") from error
        except TetherError as error:
            self.content.unlink()  # going on with it would not mend it
            reason = str(error).removeprefix(f"{self.content.name}: ")
            raise TetherError(f"what {self.url} sent is not {self.known.name}: {reason}; {by_hand(self.known)}") from error
        record = {
            "name": self.known.name,
            "url": self.url,
            "size": self.size,
            "sha256": found,
            "transitions": dataset.size,
            "downloaded": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self.known.record.unlink(missing_ok=True)  # of an earlier file, which it would outlive if this were cut short here
        os.replace(self.content, self.known.path)
        write_json(self.known.record, record)
        return record

    def _ask(self) -> Any:
        headers = {"User-Agent": "tether-rl", "Accept-Encoding": "identity"}
        if self.size:
            headers["Range"] = f"bytes={self.size}-"
            if self.validator:
                headers["If-Range"] = self.validator  # a file that has changed since comes from its start
        try:
            return _opener().open(urllib.request.Request(self.url, headers=headers), timeout=TIMEOUT)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    self.content.unlink()  # more has arrived than there is now
                    return self._ask()
                raise TetherError(f"{self.url}: the server answers {error.code} {error.reason}; {by_hand(self.known)}") from error
        except (urllib.error.URLError, *_ENDED) as error:
            reason = getattr(error, "reason", None) or error
            reason = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
            host = urllib.parse.urlsplit(self.url).netloc
            kept = f" ({self.progress()}, and are kept)" if self.size else ""
            raise TetherError(f"cannot reach {host}: {reason}{kept}; is there a network? {by_hand(self.known)}") from error

    def _accept(self, response: Any) -> int:
        """The byte that the answer starts from, with its facts kept for the next connection."""
        start, total = 0, response.headers.get("Content-Length")
        if response.status == http.HTTPStatus.PARTIAL_CONTENT:
            start, total = _content_range(response.headers.get("Content-Range", ""))
            if start != self.size or (self.total is not None and total != self.total):
                raise TetherError(f"{self.url}: the server sends other bytes than were asked for; delete {self.content.parent}")
        self.total = int(total) if total is not None else None
        etag = response.headers.get("ETag", "")
        self.validator = etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified")
        free = shutil.disk_usage(self.about.parent).free
        if self.total is not None and self.total - start > free:
            missing = f"{spelt_size(self.total - start)} are to come, {spelt_size(free)} are free in {self.known.path.parent}"
            raise TetherError(f"{missing}; TETHER_DATA names another folder")
        write_json(self.about, {"url": self.url, "total": self.total, "validator": self.validator})
        return start


def by_hand(known: KnownDataset) -> str:
    return f"a file from elsewhere can be put at {known.path}"


def _first_block(response: Any, url: str) -> bytes:
    """Enough to know an HDF5 file by: what is none is refused before it fills the disk."""
    block = response.read(40)  # or less, where the connection ends
    if not block.startswith(SIGNATURE[: len(block)]):
        raise TetherError(f"what {url} sends is no HDF5 file; it begins with {block!r}")
    return block


def _content_range(text: str) -> tuple[int, int | None]:
    """`bytes 100-999/1000` as (100, 1000)."""
    try:
        span, _, total = text.removeprefix("bytes ").partition("/")
        return int(span.split("-")[0]), None if total == "*" else int(total)
    except ValueError:
        return -1, None


def _opener() -> urllib.request.OpenerDirector:
    """HTTP and HTTPS only: a redirection must not lead to a file of this machine."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener
