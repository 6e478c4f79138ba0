"""Agents and bonuses that are not Tether's own. The parts are those of docs/extending.md, as they stand there."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import as_dataset, linear_behaviour, linear_policy

import tether
from tether import extending
from tether.agents import AGENTS
from tether.bonuses import BONUSES
from tether.cli import main
from tether.config import make_config
from tether.settings import from_named, to_named

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The page's module, in the current folder."""
    code = "\n\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    (tmp_path / "my_parts.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", ".")])
    extending.at_address("my_parts:LinearClone", "bonus")
    yield sys.modules["my_parts"]
    del sys.modules["my_parts"]


def test_a_bonus_from_an_address_is_fitted_cached_and_remembered(parts, tmp_path, monkeypatch):
    monkeypatch.setenv("TETHER_CACHE", str(tmp_path / "cache"))
    rows = linear_behaviour()
    bonus = tether.fit(parts.LinearClone(), as_dataset(rows))
    observation = np.asarray(rows.observation[:4])
    np.testing.assert_allclose(bonus.novelty(observation, linear_policy(observation).astype("f4")), 0.0, atol=1e-6)
    np.testing.assert_allclose(
        bonus.novelty(observation, linear_policy(observation).astype("f4") + np.array([[0.3, 0.4]])), 0.25, rtol=1e-3
    )
    named = json.loads(json.dumps(to_named(parts.LinearClone(ridge=2.0), BONUSES)))
    assert named["name"] == "my_parts:LinearClone"
    assert from_named(named, BONUSES, "bonus") == parts.LinearClone(ridge=2.0)


def test_a_command_takes_both_by_their_addresses(parts, tmp_path, capsys):
    names = ["--agent", "my_parts:GentleTD3", "--bonus", "my_parts:LinearClone"]
    main(["train", "--dataset", "halfcheetah-mixed-tether", *names, "--set", "agent.effort_weight=0.5", "--dry-run"])
    told = capsys.readouterr().out
    assert "agent.effort_weight = 0.5" in told
    assert "bonus.ridge = 0.001" in told


def test_an_agent_of_ones_own_learns_what_it_adds(parts):
    """Where all actions earn the same, nothing but the effort moves the actor: towards 0, which its bounds allow it to reach."""
    rows = linear_behaviour()
    small = {
        "hidden_sizes": (8, 8),
        "batch_size": 32,
        "bonus_weight_actor": 0.0,
        "bonus_weight_critic": 0.0,
        "learning_rate_actor": 1e-2,
    }
    agent = parts.GentleTD3(effort_weight=10.0, td3=replace(tether.TD3(), **small))
    with pytest.warns(UserWarning, match="every reward of problem is 0"):
        policy = tether.train(agent, as_dataset(rows), steps=400, epoch_steps=400, policy="online")
    assert np.abs(policy(np.asarray(rows.observation))).mean() < 0.3
    assert make_config("x", agent="my_parts:GentleTD3", overrides={"agent.td3.discount": "0.5"}).agent.discount == 0.5


def test_a_name_of_ones_own(parts):
    tether.register_bonus("linear-clone", parts.LinearClone)
    tether.register_agent("gentle-td3", parts.GentleTD3)
    try:
        config = make_config("x", agent="gentle-td3", bonus="linear-clone", overrides={"bonus.ridge": "0.5"})
        assert config.bonus == parts.LinearClone(ridge=0.5)
        assert to_named(config.agent, AGENTS)["name"] == "gentle-td3"
        tether.register_bonus("linear-clone", parts.LinearClone)  # again is no harm
        with pytest.raises(tether.TetherError, match=r"^there is a bonus 'linear-clone' already"):
            tether.register_bonus("linear-clone", type(tether.CVAE()))
    finally:
        BONUSES.pop("linear-clone", None)
        AGENTS.pop("gentle-td3", None)


def test_installed_packages_add_theirs_and_a_broken_one_is_left_out(parts, monkeypatch):
    points = [
        EntryPoint("linear-clone", "my_parts:LinearClone", "tether.bonuses"),
        EntryPoint("gone", "my_parts:Missing", "tether.bonuses"),
    ]
    monkeypatch.setattr(extending, "entry_points", lambda group: [point for point in points if point.group == group])
    with pytest.warns(UserWarning, match=r"the bonus 'gone' of my_parts:Missing is left out: .*Missing"):
        found = extending.add_installed({"none": tether.NoBonus}, "bonus")
    assert found == {"none": tether.NoBonus, "linear-clone": parts.LinearClone}
    assert extending.add_installed({}, "agent") == {}


@dataclass(frozen=True)
class Half:
    """Not whole."""

    traits = None


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda: make_config("x", bonus="no_such_module:Thing"),
            r"^no bonus 'no_such_module:Thing': No module named 'no_such_module'; ",
        ),
        (lambda: make_config("x", bonus="math:pi"), r"3\.14.* is no bonus: a frozen dataclass is"),
        (lambda: tether.register_bonus("half", Half), r"^Half is no bonus: it lacks batch_shape, init, update, frozen, novelty"),
        (lambda: tether.register_agent("My Agent", Half), r"the agent's name is 'My Agent'; a name has small letters"),
        (lambda: to_named(Half(), BONUSES), r"^Half is not known by any name"),
    ],
)
def test_what_is_no_part_is_refused(act, message):
    with pytest.raises(tether.TetherError, match=message):
        act()
