"""Environments that are stepped together, and that come back after a stop."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from pendulum import ENV_ID

from tether.collection.recording import Recording, joined
from tether.environments.making import make_environment
from tether.environments.vectors import environment_spec
from tether.finetuning.crew import Crew

TURN = 6  # steps of both environments together


@pytest.fixture
def make_crew() -> Iterator:
    environment = make_environment(ENV_ID)
    spec = environment_spec(environment)
    environment.close()
    crews: list[Crew] = []

    def make(seed: int = 0) -> Crew:
        crews.append(Crew(ENV_ID, spec, 2, TURN, seed))
        return crews[-1]

    yield make
    for crew in crews:
        crew.close()


def choose(observations: np.ndarray) -> np.ndarray:
    """Anything that hangs on what is seen."""
    return np.sin(7.0 * observations[:, 1:2]).astype(np.float32)


def assert_same(one: Recording, other: Recording) -> None:
    for column, expected in zip((*one.transitions, one.truncated), (*other.transitions, other.truncated), strict=True):
        np.testing.assert_array_equal(column, expected)


def test_rows_are_in_the_order_of_the_environments(make_crew):
    crew = make_crew()
    crew.begin()
    recording, _ = crew.turn(choose)
    assert recording.size == TURN
    observation, successor = recording.transitions.observation, recording.transitions.next_observation
    for first in (0, 3):  # three steps of one, then three of the other
        np.testing.assert_array_equal(observation[first + 1 : first + 3], successor[first : first + 2])
    assert (observation[0] != observation[3]).any()


def test_after_a_stop_they_go_on_in_the_middle_of_their_episodes(make_crew):
    unbroken, resumed = make_crew(), make_crew()
    unbroken.begin()
    turns = [unbroken.turn(choose) for _ in range(12)]
    before = joined([recording for recording, _ in turns[:7]])
    running = [recording.truncated | (recording.transitions.terminated > 0) for recording, _ in turns[6:7]]
    assert not running[0][-1]  # or there would be nothing to play again
    said: list[str] = []
    resumed.restore(before, said.append)
    for recording, returns in turns[7:]:
        again, found = resumed.turn(choose)
        assert_same(again, recording)
        assert found == returns
    assert resumed.episodes == unbroken.episodes > 0
    assert not said


def test_returns_are_of_whole_episodes(make_crew):
    crew = make_crew()
    crew.begin()
    turns = [crew.turn(choose) for _ in range(12)]
    rows = joined([recording for recording, _ in turns])
    first = np.concatenate([recording.transitions.reward[:3] for recording, _ in turns])  # of the first environment
    ends = np.concatenate([recording.transitions.terminated[:3] for recording, _ in turns])
    length = int(np.flatnonzero(ends)[0]) + 1
    expected = float(np.sum(first[:length], dtype=np.float64))
    assert expected == pytest.approx(next(value for _, ended in turns for value in ended if value == pytest.approx(expected)))
    assert crew.episodes == int(np.sum(rows.transitions.terminated))


def test_an_environment_that_does_not_repeat_itself_is_said_to(make_crew):
    crew = make_crew()
    crew.begin()
    recording, _ = crew.turn(choose)
    other = recording.transitions._replace(next_observation=recording.transitions.next_observation + 1.0)
    said: list[str] = []
    resumed = make_crew()
    resumed.restore(Recording(other, recording.truncated), said.append)
    assert len(said) == 2  # one for each
    assert said[0].startswith(f"{ENV_ID} does not repeat itself from its seed: its running episode is cut")
    resumed.turn(choose)


def test_no_two_episodes_begin_alike(make_crew):
    crew = make_crew()
    crew.begin()
    turns = [crew.turn(choose)[0] for _ in range(12)]
    ended = np.concatenate([recording.transitions.terminated[:3] > 0 for recording in turns])  # in the first environment
    seen = np.concatenate([recording.transitions.observation[:3] for recording in turns])
    starts = seen[1:][ended[:-1]]
    assert len(starts) > 1
    assert len(np.unique(np.concatenate([seen[:1], starts]), axis=0)) == len(starts) + 1


def test_seeds_differ(make_crew):
    rows = []
    for seed in (0, 1):
        crew = make_crew(seed)
        crew.begin()
        rows.append(crew.turn(choose)[0].transitions.observation)
    assert (rows[0] != rows[1]).any()
