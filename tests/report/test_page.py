"""The page: well formed, whole without a network, and every number with the runs that it comes from."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from small_runs import CONFIG, write_and_read
from written import write_all, write_run

from tether import cli
from tether.config import make_config, to_json
from tether.report import statistics
from tether.report.costs import cost_line
from tether.report.gathered import Group, gather, group_runs
from tether.report.page.charts import Line, line_chart, ticks
from tether.report.page.content import make_page
from tether.report.page.runs import command
from tether.runs.reading import Run
from tether.settings import parse
from tether.storage import write_json

EMBEDDED = "halfcheetah-mixed-tether"
RUN = Run(Path("run"), {}, None, None, [], [], [])
VOID = {"meta", "link", "br", "img", "input", "line", "path", "circle"}


class Reader(HTMLParser):
    """Checks that tags nest, and keeps ids, links, and the text of each tag."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.texts: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids += [str(values["id"])] if "id" in values else []
        self.links += [str(values[name]) for name in ("href", "src") if name in values]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and data.strip():
            self.texts.setdefault(self.open[-1], []).append(data.strip())


@pytest.fixture(autouse=True, scope="module")
def fewer_resamples() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "RESAMPLES", 50)
        yield


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Reader]:
    text = make_page(gather([write_all(tmp_path_factory.mktemp("runs"))]), "runs")
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return text, reader


def test_the_page_is_well_formed_and_needs_nothing_from_anywhere(page: tuple[str, Reader]):
    text, reader = page
    assert len(reader.ids) == len(set(reader.ids))
    assert {link for link in reader.links if not link.startswith("#")} == set()
    assert {link.removeprefix("#") for link in reader.links} <= set(reader.ids)
    assert "http" not in text.replace("http-equiv", "")
    assert "default-src 'none'" in text


def test_numbers_are_marked_by_the_papers_rule_and_lead_to_their_runs(page: tuple[str, Reader]):
    text, _ = page
    # hopper-medium-v2: seeds of 40 and 41, and of 50 and 51. The spread of two seeds one apart is 0.5.
    assert '<td><a href="#runs-1"><b>50.5 ± 0.5</b></a></td>' in text
    assert '<td><a href="#runs-0">40.5 ± 0.5</a></td>' in text
    # mine: 10.5 ± 0.5 is the best, and 10.0 ± 0.5 reaches it.
    assert '<a href="#runs-2"><b>10.5 ± 0.5</b></a>' in text
    assert '<a href="#runs-3"><u>10.0 ± 0.5</u></a>' in text
    behind = text[text.index('id="runs-3"') :]
    behind = behind[: behind.index("</section>")]
    assert "tether train --dataset mine.hdf5 --agent td3 --bonus cvae --seeds 0,1" in behind
    assert "agent.discount=0.99" in behind
    assert "ab" * 32 in behind
    assert "0.10.2" in behind
    assert len(re.findall(r'<code title="([0-9a-f]{64})">', behind)) == 2  # of the two results


@pytest.mark.parametrize("agent", ["td3", "td3-bc", "iql"])
def test_the_command_stands_for_the_very_config(agent: str, tmp_path: Path):
    changes = {"agent.normalise_observations": "true", "agent.hidden_sizes": "64,32", "training.value_limit": "inf"}
    config = make_config(EMBEDDED, None, agent, seed=3, overrides=changes)
    named = to_json(config)
    group = Group("any", "mine", named["agent"]["name"], named["bonus"]["name"], (replace(RUN, config=named),))
    words = shlex.split(command(group).replace("\\\n", " "))
    given = dict(zip(words[2:10:2], words[3:10:2], strict=True))
    assert given == {"--dataset": EMBEDDED, "--agent": agent, "--bonus": named["bonus"]["name"], "--seed": "3"}
    overrides = dict(parse(word) for word in words[words.index("--set") + 1 :])
    assert make_config(EMBEDDED, None, agent, given["--bonus"], seed=3, overrides=overrides) == config


def test_the_command_of_a_run_that_went_on_is_that_of_going_on():
    """For its seed, from the run before it; of those from fresh weights and those with a log too."""
    named = to_json(make_config(EMBEDDED, None, "td3", overrides={"training.steps": "25000"}))
    online = {"env_id": "Hopper-v4", "steps": 300, "updates_per_step": 2.0, "anneal_steps": 100, "exploration_noise": 0.2}
    start = {"run": "runs/a b/s3", "checkpoint_sha256": "ab", "step": 20_000, "log": ""}

    def told(config: dict) -> list[str]:
        return shlex.split(command(Group("any", "mine", "td3", "cvae", (replace(RUN, config=config),))).replace("\\\n", " "))

    words = told(named | {"start": start, "online": online, "seed": 3})
    expected = "--seed 3 --env Hopper-v4 --steps 300 --updates-per-step 2.0 --anneal 100 --noise 0.2 --set"
    assert words[:16] == ["tether", "finetune", "runs/a b/s3", *expected.split()]
    assert "agent.discount=0.995" in words
    assert not [word for word in words if word.startswith(("training.steps=", "bonus.", "start.", "online."))]
    assert "--fresh" in told(named | {"online": online})
    with_log = told(named | {"start": start | {"log": "a.hdf5 + b.hdf5"}})
    assert with_log[3:9] == ["--seed", "0", "--log", "b.hdf5", "--steps", "5000"]


def test_what_was_learnt_online_is_another_method(tmp_path: Path):
    offline = write_and_read(tmp_path, "offline/s0", config=CONFIG | {"agent": {"name": "td3"}, "bonus": {"name": "cvae"}})
    online = write_and_read(tmp_path, "online/s0", config=offline.config | {"online": {"env_id": "Hopper-v4"}})
    assert [group.label for group in group_runs([offline, online])] == ["td3-cvae", "td3+online-cvae"]


def test_numbers_over_tasks_lead_to_all_the_runs_behind_them(page: tuple[str, Reader]):
    text, _ = page
    overview = text[text.index('<section id="table">') :].split("</section>")[0]
    # Means over hopper-medium-v2 and mine: (40.5 + 10.5) / 2 and (50.5 + 10.0) / 2.
    assert '<td><a href="#runs-0-and-others">25.5</a></td>' in overview
    assert '<td><a href="#runs-1-and-others"><b>30.2</b></a></td>' in overview
    across = text[text.index('<section class="across">') :].split("</section>")[0]
    assert re.search(
        r'<th scope="row">td3-cvae</th><td><a href="#runs-1-and-others">2 x 2</a></td><td><a href="#runs-1-and-others">', across
    )
    assert re.search(
        r'than .*?<a href="#runs-[01]-and-others" data-also="runs-[01]-and-others"><span class="free">\d', across
    )  # of both methods
    assert across.count('<a href="#runs-1-and-others" aria-label="runs of td3-cvae"><path') == 1  # the profile
    panel = across[across.index('id="runs-1-and-others"') :]
    assert "td3-cvae: 4 runs on 2 tasks" in panel
    assert len(re.findall(r"<code>\S+/(hopper-medium-v2|mine)/td3-cvae/s[01]</code>", panel)) == 4
    assert '<a href="#runs-1">hopper-medium-v2</a>, <a href="#runs-3">mine</a>' in panel


def test_numbers_over_one_task_lead_to_its_own_runs(tmp_path: Path):
    write_all(tmp_path)
    text = make_page(gather([tmp_path / "mine"]), "runs")
    across = text[text.index('<section class="across">') :].split("</section>")[0]
    assert re.search(r'<th scope="row">td3-cvae</th><td><a href="#runs-1">', across)
    assert "-and-others" not in text


def test_every_table_says_what_its_choices_have_cost(page: tuple[str, Reader]):
    """Two methods of two seeds on each task, with two evaluations of two episodes each: 16 for a task, 32 for both."""
    text, _ = page
    settings = "; of settings 1,200 (proof: by the last score)."
    parts = [text[text.index(start) :].split("</section>")[0] for start in ('<section id="table">', '<section class="across">')]
    assert all(f"Episodes in the environment that choices cost: 0{settings}" in part for part in parts)
    tasks = text.split('<section class="task"')[1:]
    assert all(f"that choices cost: 16 for best, 0 for last and last ten{settings}" in task for task in tasks)
    assert len(tasks) == 2


def test_the_papers_numbers_stand_beside_ours_where_it_has_any(page: tuple[str, Reader]):
    text, _ = page
    section = text[text.index('<section class="task" data-task="hopper-medium-v2">') :].split("</section>")[0]
    assert '<td class="paper">29.0</td>' in section  # beside cloning
    assert '<td class="paper"><u>55.9 ± 11.4</u></td>' in section  # beside td3-cvae: CQL has 58.0
    assert "TD3-CVAE <u>55.9 ± 11.4</u>, CQL <b>58.0</b>" in section
    other = text[text.index('<section class="task" data-task="mine">') :].split("</section>")[0]
    assert "The paper has no number for this dataset." in other


def test_what_is_missing_or_failed_is_told_with_the_reason(page: tuple[str, Reader], tmp_path: Path):
    text, _ = page
    part = text[text.index('<section id="missing">') :].split("</section>")[0]
    rows = re.findall(r"<tr><td>(.*?)</td><td><code>.*?/(s\d)</code></td><td>(.*?)</td></tr>", part)
    assert sorted((run, state) for state, run, _ in rows) == [
        ("s2", "unfinished"),
        ("s3", "unreadable"),
        ("s4", "failed"),
        ("s5", "not begun"),
    ]
    reasons = {run: why for _, run, why in rows}
    assert reasons["s2"] == "at step 2,000 of 2,000"
    assert reasons["s4"] == "critic/q is 1e9 at step 700 &lt;b&gt;"  # a run's words are never taken for the page's
    assert "4 missing or failed" in text


def test_curves_profiles_and_histograms_are_drawn(page: tuple[str, Reader]):
    text, reader = page
    drawn = re.findall(r'aria-label="(.*?)"', text)
    assert drawn.count("over training, with 95 % intervals") == 2
    assert drawn.count("bonus cvae on held-out pairs, by kind of action") == 2
    assert drawn.count("performance profiles, with 95 % intervals") == 1
    # Returns of 100 and 300 are (200 + 20.27) / 3254.57 = 6.8 in Hopper's scores, a return more is 0.03.
    assert "bc-none: 6.8 [6.8, 6.8] at 1k" in reader.texts["title"]


def test_two_fits_of_one_bonus_say_whose_they_are(tmp_path: Path):
    for name, held in (("near", 0.9), ("far", 0.5), ("wide", 0.5)):
        write_run(tmp_path / name, "mine", "td3-cvae", 0, 1.0)
        place = tmp_path / name / "mine" / "td3-cvae" / "s0" / "result.json"
        result = json.loads(place.read_text())
        result["bonus"]["histogram"]["shares"]["data"] = [held, 1.0 - held]
        place.write_text(json.dumps(result))
    drawn = re.findall(r'aria-label="(bonus .*?)"', make_page(gather([tmp_path]), "runs"))
    assert drawn == [
        f"bonus cvae of {whose} on held-out pairs, by kind of action" for whose in ("far/td3-cvae and 1 more", "near/td3-cvae")
    ]


def test_without_a_method_of_the_papers_its_column_is_left_out(tmp_path: Path):
    write_run(tmp_path, "hopper-medium-v2", "tethered-density", 0, 1.0)
    assert "<th>the paper</th>" not in make_page(gather([tmp_path]), "runs")


def test_what_choices_cost_is_told(page: tuple[str, Reader]):
    text, _ = page
    # Eight finished runs of two evaluations of two episodes.
    assert "choices cost: of the step 0 for last and last ten, 32 for best; of settings 1,200 (proof: by the last score)" in text


def test_scores_that_settings_were_chosen_by_are_said_to_flatter(tmp_path: Path):
    """Those of final runs, of seeds that the choice has not seen, do not."""
    write_run(tmp_path / "search", "mine", "bc-none", 0, 10.0)
    write_run(tmp_path / "final", "mine", "bc-none", 10, 9.0)
    plan = {"plan": "quick", "runs": [], "chosen_by": "the last score", "episodes": 4}
    write_json(tmp_path / "_sweep" / "plan.json", plan)
    chosen = "of settings 4 (quick: by the last score)"
    every, final = (gather([folder]) for folder in (tmp_path, tmp_path / "final"))
    assert cost_line(every.runs, every.sweeps).endswith(
        f"{chosen}; runs here are among those that settings were chosen by, and flatter what was chosen: compare final ones"
    )
    assert cost_line(final.runs, final.sweeps).endswith(chosen)
    write_json(tmp_path / "_sweep" / "plan.json", plan | {"chosen_by": ""})
    without = gather([tmp_path])
    assert cost_line(without.runs, without.sweeps).endswith("of settings 0, as far as is recorded here")


def test_one_method_on_one_task_does_not_take_the_others_out_of_the_comparison(tmp_path: Path):
    write_run(write_all(tmp_path), "mine", "iql-none", 0, 12.0)
    text = make_page(gather([tmp_path]), "runs")
    assert "iql-none: only on mine" in text
    assert "on 2 tasks: hopper-medium-v2, mine" in text


def test_a_page_of_runs_that_are_under_way_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_run(tmp_path, "mine", "bc-none", 0, 1.0, finished=False)
    assert cli.main(["report", str(tmp_path), "--html", str(tmp_path / "page.html")]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/page.html: 0 finished runs, 1 missing or failed\n"
    text = (tmp_path / "page.html").read_text()
    part = text[text.index('<section id="table">') :].split("</section>")[0]
    assert "No run has finished yet" in part
    assert "s0, its one seed: at step 2,000 of 2,000" in part
    assert "<table" not in part
    assert 'id="task"' not in text  # there is nothing to choose from


def test_lines_of_fifteen_methods_are_told_apart():
    lines = [Line(f"m{number}", np.arange(2.0), np.arange(2.0)) for number in range(21)]
    drawn = re.findall(r'<g class="series (.*?)"', line_chart(lines, "x", "y", "title"))
    assert len(set(drawn)) == 21


def test_methods_of_one_name_are_told_apart_by_their_folders(tmp_path: Path):
    for folder in ("short", "long"):
        write_run(tmp_path / folder, "mine", "td3-cvae", 0, 1.0)
    assert [group.label for group in gather([tmp_path]).groups] == ["long/td3-cvae", "short/td3-cvae"]
    assert [group.label for group in gather([tmp_path / "long"]).groups] == ["td3-cvae"]


def test_the_command_writes_it_and_says_what_is_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    runs, out = write_all(tmp_path / "runs"), tmp_path / "report.html"
    assert cli.main(["report", str(runs), "--html", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: 8 finished runs on 2 tasks, 4 missing or failed\n"
    assert out.read_text().startswith("<!doctype html>")
    assert cli.main(["report", str(tmp_path / "runs"), "--html", str(out), "--statistics"]) == 2
    assert "are each the whole answer" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert cli.main(["report", str(tmp_path / "empty"), "--html", str(out)]) == 2
    assert capsys.readouterr().err == f"error: no finished run in {tmp_path}/empty\n"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 100.0, [0, 20, 40, 60, 80, 100]),
        (-3.0, 43.0, [-10, 0, 10, 20, 30, 40, 50]),
        (0.0, 0.9, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (5.0, 5.0, [2, 3, 4, 5, 6, 7, 8]),
    ],
)
def test_ticks_are_round_and_cover_all(low: float, high: float, expected: list[float]):
    np.testing.assert_allclose(ticks(low, high), expected)
