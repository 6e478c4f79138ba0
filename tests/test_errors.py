"""The one error that users see, and the names it offers."""

from __future__ import annotations

import pytest

from tether.errors import TetherError, did_you_mean


@pytest.mark.parametrize(
    ("given", "known", "expected"),
    [
        ("hoper", ["walker2d", "hopper"], "; did you mean hopper?"),
        (
            "bonus_wieght",
            ["bonus_weight_actor", "bonus_weight_critic"],
            "; did you mean bonus_weight_actor or bonus_weight_critic?",
        ),
        ("zzz", ["td3", "bc"], "; there is: bc, td3"),
        ("anything", [], ""),
    ],
)
def test_the_nearest_names_are_offered_else_all_of_them(given: str, known: list[str], expected: str):
    assert did_you_mean(given, known) == expected


def test_at_most_three_names_are_offered():
    known = [f"hopper-v{version}" for version in range(5)]
    assert did_you_mean("hopper-v", known).count(" or ") == 2


def test_a_prefix_is_shown_and_not_compared():
    known = ["discount", "target_mix"]
    assert did_you_mean("discuont", known, prefix="agent.") == "; did you mean agent.discount?"
    assert did_you_mean("tua", known, prefix="agent.") == "; there is: agent.discount, agent.target_mix"


def test_the_known_names_may_come_from_an_iterator():
    assert did_you_mean("hoper", iter(["hopper"])) == "; did you mean hopper?"


def test_the_message_is_all_that_a_user_sees_of_it():
    assert str(TetherError("hopper.hdf5: column rewards is missing")) == "hopper.hdf5: column rewards is missing"
