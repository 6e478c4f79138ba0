"""`--bonus auto`: which candidate is taken and why, from numbers worked by hand; and the whole way, without fits."""

from __future__ import annotations

import numpy as np
import pytest
from problems import ROWS, as_dataset, transitions, two_blobs

from tether import CVAE, DQN, TD3
from tether.errors import TetherError
from tether.experiments import choice
from tether.experiments.choice import Candidate, Verdict, candidates_for, choose_bonus, decide, weighed
from tether.types import discrete_spec


def verdict(label: str, sees: float = 0.9, near: float = 0.6, share: float | None = 0.1, gap: float = 1.0) -> Verdict:
    return Verdict(label, sees, near, share, gap, reach=3.0)


def taken(*verdicts: Verdict, discrete: bool = False) -> choice.Choice:
    candidates = [Candidate(each.label, "cvae" if each.label == "usual" else each.label, {}, CVAE()) for each in verdicts]
    return decide(candidates, verdicts, discrete)


def test_the_usual_one_is_kept_unless_another_leads_clearly_nearer():
    kept = taken(verdict("usual", share=0.10), verdict("other", share=0.06, near=0.9))
    assert (kept.label, kept.factor) == ("usual", 1.0)
    assert "usual has AUROC 0.90 against uniform actions and 0.60" in kept.reasons[-1]
    other = taken(verdict("usual", share=0.30, gap=2.0), verdict("third", share=0.12), verdict("other", share=0.10, gap=0.5))
    assert other.label == "other"
    assert other.factor == 4.0  # a uniform action costs 2 more by the usual bonus, and 0.5 more by this one
    assert "ends further from the data (0.30)" in other.reasons[0]


def test_a_blind_one_is_never_taken_while_another_sees():
    found = taken(verdict("usual", sees=0.55, share=-0.1, gap=0.001), verdict("other", share=0.4, gap=0.5))
    assert (found.label, found.blind) == ("other", False)
    assert found.factor == 6.0  # of a blind bonus the gap says nothing: uniform actions are 3.0 further from recorded ones
    assert found.reasons[0].startswith("usual, the agent's usual one, is blind here: AUROC 0.55")
    assert [line[-1] for line in choice.table(found)] == ["", "blind", "taken"]


def test_where_all_are_blind_the_least_blind_is_taken_and_that_is_said():
    found = taken(verdict("usual", sees=0.51), verdict("other", sees=0.54))
    assert (found.label, found.blind) == ("other", True)


def test_weights_are_multiplied_unless_the_user_has_set_them():
    found = taken(verdict("usual", share=0.9, gap=1.0), verdict("other", gap=0.5))
    assert weighed(found, TD3(), TD3(), {}) == {"agent.bonus_weight_actor": 10.0, "agent.bonus_weight_critic": 2.0}
    assert weighed(found, TD3(), TD3(), {"agent.bonus_weight_actor": "7"}) == {"agent.bonus_weight_critic": 2.0}
    assert weighed(found, DQN(), DQN(), {}) == {"agent.bonus_weight": 2.0}
    assert weighed(found, TD3(), TD3(bonus_weight_actor=0.1), {}) == {}  # the preset has weights of their own for it


def test_candidates_are_what_the_agent_can_take_the_calibrated_bound_among_them():
    rows = as_dataset(two_blobs())
    found = candidates_for(rows, "log.hdf5", "td3", "paper", {"agent.discount": "0.9"}, None)
    assert [each.label for each in found] == [
        "cvae",
        "cvae:elbo=calibrated",
        "rnd",
        "rnd-film",
        "classifier",
        "forward",
        "density",
    ]
    assert {each.bonus.steps for each in found} == {2_000, 1_000}
    assert found[1].settings == {
        "bonus.normalise_observations": True,
        "bonus.elbo": "calibrated",
        "bonus.measure": "bound",
        "bonus.kl_weight": 1.0,
    }
    assert not candidates_for(rows, "log.hdf5", "td3", "paper", {}, "Hopper-v5")[
        0
    ].settings  # the paper's task: as the paper has it
    small = candidates_for(rows, "log.hdf5", "td3", "paper", {"bonus.latent_size": "3"}, None)  # of those that have it
    assert [getattr(each.bonus, "latent_size", None) for each in small[:3]] == [3, 3, None]
    with pytest.raises(TetherError, match=r"none of cvae, .* has a setting bonus.latent"):
        candidates_for(rows, "log.hdf5", "td3", "paper", {"bonus.latents": "3"}, None)
    with pytest.raises(TetherError, match="bc learns without a bonus"):
        candidates_for(rows, "log.hdf5", "bc", "paper", {}, None)


def test_from_data_to_a_choice_and_once_only(monkeypatch: pytest.MonkeyPatch, tmp_path):
    """Two bonuses that count and need no fit; at observations 0 and 1 the action of the same number was recorded."""
    monkeypatch.setenv("TETHER_CACHE", str(tmp_path))
    monkeypatch.setattr(choice, "PROBE_STEPS", 2)
    observation = np.tile([[0.0, 0.0], [1.0, 1.0]], (ROWS // 2, 1)).astype(np.float32)
    action = np.tile(np.eye(2, dtype=np.float32), (ROWS // 2, 1))
    rows = as_dataset(transitions(action, 0.0, 0.0, observation), spec=discrete_spec(2, 2))
    found = candidates_for(rows, "log.hdf5", "dqn", "paper", {}, None)
    counting = [each for each in found if each.name in ("count", "count-exact")]
    said: list[str] = []
    first = choose_bonus(counting, rows, said.append)
    assert first.verdicts[1].sees == 1.0
    assert said[0].startswith("--bonus auto tries 2 bonuses first: 0 steps of short fits")
    assert choose_bonus(counting, rows, said.append) == first
    assert said[1].startswith("--bonus auto: decided before about this data")
