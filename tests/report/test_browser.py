"""The page in a real browser: headless Chromium, driven by the WebDriver protocol, which is JSON over HTTP."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from written import write_all

from tether.report import statistics
from tether.report.gathered import gather
from tether.report.page.content import write_page

pytestmark = pytest.mark.slow

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
PHONE = {"width": 390, "height": 844, "pixelRatio": 2.0}
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's key of an element


class Browser:
    def __init__(self, address: str, options: dict[str, Any]) -> None:
        self._address = f"{address}/session"
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        session = self._send("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self._address += f"/{session['sessionId']}"

    def _send(self, way: str, path: str, content: Any = None) -> Any:
        body = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self._address + path, body, {"Content-Type": "application/json"}, method=way)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())["value"]

    def open(self, path: Path) -> None:
        self._send("POST", "/url", {"url": path.as_uri()})

    def run(self, script: str) -> Any:
        return self._send("POST", "/execute/sync", {"script": script, "args": []})

    def click(self, selector: str) -> None:
        found = self._send("POST", "/element", {"using": "css selector", "value": selector})
        self._send("POST", f"/element/{found[ELEMENT]}/click", {})

    def log(self) -> list[dict[str, Any]]:
        return self._send("POST", "/se/log", {"type": "browser"})

    def screenshot(self, path: Path) -> bytes:
        path.write_bytes(base64.b64decode(self._send("GET", "/screenshot")))
        return path.read_bytes()

    def close(self) -> None:
        self._send("DELETE", "")


def listening(port: int) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def browsing(**more: Any) -> Iterator[Browser]:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs chromium and chromedriver (Debian: chromium, chromium-driver)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,1400"]
    with subprocess.Popen([DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        try:
            until = time.monotonic() + 60
            while not listening(port):
                assert time.monotonic() < until
                time.sleep(0.1)
            browser = Browser(f"http://127.0.0.1:{port}", {"binary": CHROMIUM, "args": arguments, **more})
            try:
                yield browser
            finally:
                browser.close()
        finally:
            driver.terminate()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "RESAMPLES", 50)
        write_page(gather([write_all(folder / "runs")]), folder / "report.html", "runs")
    return folder / "report.html"


SHOWN = "return [...document.querySelectorAll('section.task')].filter(s => s.offsetParent).map(s => s.dataset.task)"
BACKGROUND = "return getComputedStyle(document.body).backgroundColor"


def test_a_number_is_clicked_tasks_are_filtered_and_light_turns_to_dark(page: Path, tmp_path: Path):
    with browsing() as browser:
        browser.open(page)
        assert browser.run("return document.title") == "runs"

        # A number opens the runs behind it, and brings them into view.
        opened = "return [...document.querySelectorAll('details.runs')].filter(d => d.open).map(d => d.id)"
        assert browser.run(opened) == []
        browser.click('section.task[data-task="mine"] a[href="#runs-3"]')
        time.sleep(0.3)
        assert browser.run(opened) == ["runs-3"]
        assert 0 <= browser.run("return document.getElementById('runs-3').getBoundingClientRect().top") < 1000
        assert "tether train --dataset mine.hdf5" in browser.run("return document.getElementById('runs-3').innerText")

        # A number over tasks opens the runs of all, one that compares two methods those of both.
        browser.click("tr.across td a")
        time.sleep(0.3)
        assert browser.run(opened) == ["runs-0-and-others", "runs-3"]
        browser.run("document.querySelectorAll('details').forEach(d => { d.open = d.parentNode.tagName === 'DIV' && !d.id; })")
        browser.click("section.across a[data-also]")
        time.sleep(0.3)
        assert browser.run(opened) == ["runs-0-and-others", "runs-1-and-others"]

        # The filter.
        assert browser.run(SHOWN) == ["hopper-medium-v2", "mine"]
        browser.click("#task option:nth-child(3)")
        assert browser.run(SHOWN) == ["mine"]
        rows = "return [...document.querySelectorAll('#table tbody tr')].filter(r => r.offsetParent).length"
        assert browser.run(rows) == 1
        browser.click("#task option:first-child")
        assert browser.run(SHOWN) == ["hopper-medium-v2", "mine"]

        # A line is switched off by its legend.
        line = "return getComputedStyle(document.querySelector('section.task .series')).display"
        assert browser.run(line) == "inline"
        browser.click("section.task .key")
        assert browser.run(line) == "none"

        # Light and dark.
        light = browser.run(BACKGROUND)
        picture = browser.screenshot(tmp_path / "light.png")
        browser.click("#theme")
        assert browser.run(BACKGROUND) != light
        assert browser.screenshot(tmp_path / "dark.png") != picture
        browser.click("#theme")
        assert browser.run(BACKGROUND) == light

        # Nothing was asked of a network, and nothing went wrong.
        assert browser.run("return performance.getEntriesByType('resource').length") == 0
        assert browser.log() == []


def test_a_table_of_many_methods_is_as_wide_as_the_window_and_then_scrolls(page: Path):
    with browsing() as browser:
        browser.open(page)
        text = browser.run("return document.querySelector('header').getBoundingClientRect().width")
        browser.run("document.querySelectorAll('#table td').forEach(cell => { cell.style.minWidth = '40rem' })")
        assert text < browser.run("return document.querySelector('#table .scroll').getBoundingClientRect().width")
        assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0  # the page itself does not
        browser.run("document.querySelector('#table .scroll').scrollLeft = 400")
        shown = "return document.querySelector('#table tbody th').getBoundingClientRect().left"
        assert browser.run(shown) >= 0  # and the names of tasks stay


def test_it_fits_on_a_phone(page: Path, tmp_path: Path):
    with browsing(mobileEmulation={"deviceMetrics": PHONE}) as browser:
        browser.open(page)
        assert browser.run("return innerWidth") == 390
        assert browser.run("return document.documentElement.scrollWidth") <= 390
        for selector in ("h2", "section.task .chart svg", "#task"):
            assert browser.run(f"return document.querySelector({selector!r}).getBoundingClientRect().right") <= 390
        letters = "return document.querySelector('svg .tick').getBoundingClientRect().height"
        assert browser.run(letters) > 9  # letters of a chart that is drawn as wide as the screen can still be read
        browser.screenshot(tmp_path / "phone.png")
        browser.click('section.task[data-task="mine"] a[href="#runs-3"]')
        assert browser.run("return document.documentElement.scrollWidth") <= 390  # what is opened scrolls by itself
