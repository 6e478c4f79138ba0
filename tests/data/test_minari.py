"""Minari both ways, with its own library: real datasets that its DataCollector recorded in real environments."""

from __future__ import annotations

import gc
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import tether
from tether.config import make_config
from tether.data import Dataset, load_dataset
from tether.data.files.writing import save_dataset
from tether.data.minari.exporting import export_minari
from tether.data.minari.reading import download, list_datasets
from tether.data.provenance import recorded_parts
from tether.data.transforms import subsample
from tether.environments.spaces import check_parts
from tether.errors import TetherError
from tether.evaluation.rollout import Evaluator
from tether.training.run import run
from tether.types import discrete_spec

minari = pytest.importorskip("minari", reason="needs the extra minari")


@pytest.fixture(autouse=True)
def minari_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path / "minari"


def record(environment: gymnasium.Env, dataset_id: str, episodes: int = 2, steps: int = 5, **options) -> minari.MinariDataset:
    """Random actions; the last episode is left unfinished. Minari warns of every piece of metadata that is not given."""
    collector = minari.DataCollector(environment, **options)
    environment.action_space.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for episode in range(episodes):
            collector.reset(seed=episode)
            for _ in range(steps):
                _, _, terminated, truncated, _ = collector.step(environment.action_space.sample())
                if terminated or truncated:
                    break
        made = collector.create_dataset(dataset_id)
        collector.close()
        del collector
        gc.collect()  # the collector leaves its temporary folders to the garbage collector, which warns of them
    return made


def from_buffers(dataset_id: str, episodes: list[dict], observation_space=None, action_space=None, **options) -> None:
    from minari.data_collector.episode_buffer import EpisodeBuffer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        minari.create_dataset_from_buffers(
            dataset_id,
            [EpisodeBuffer(**episode) for episode in episodes],
            observation_space=observation_space or spaces.Box(-np.inf, np.inf, (1,)),
            action_space=action_space or spaces.Box(-2.0, 2.0, (1,)),
            **options,
        )


def two_steps(**changed) -> dict:
    """One episode: observations 0, 1, 2; it terminates."""
    return {
        "observations": np.array([[0.0], [1.0], [2.0]], np.float32),
        "actions": np.array([[0.5], [-0.5]], np.float32),
        "rewards": np.array([1.0, 2.0]),
        "terminations": np.array([False, True]),
        "truncations": np.array([False, False]),
    } | changed


def test_a_recorded_dataset_is_read_step_by_step():
    made = record(gymnasium.make("InvertedPendulum-v5"), "mujoco/pendulum/random-v0", episodes=3, steps=60)
    dataset = load_dataset("minari:mujoco/pendulum/random-v0")
    episodes = list(made.iterate_episodes())
    steps = [len(episode.rewards) for episode in episodes]
    assert all(episode.terminations[-1] for episode in episodes)  # a random pole falls well within 60 steps
    np.testing.assert_array_equal(dataset.episode_ends, np.cumsum(steps))
    np.testing.assert_array_equal(
        dataset.transitions.observation[steps[0] :][: steps[1]], episodes[1].observations[:-1].astype(np.float32)
    )
    np.testing.assert_array_equal(
        dataset.transitions.next_observation[: steps[0]], episodes[0].observations[1:].astype(np.float32)
    )
    np.testing.assert_array_equal(dataset.transitions.action[: steps[0]], episodes[0].actions)
    assert dataset.transitions.terminated.sum() == 3
    assert (dataset.name, dataset.env_id) == ("mujoco-pendulum-random-v0", "InvertedPendulum-v5")
    assert dataset.spec.action_low == (-3.0,)
    assert dataset.notes.action_bounds == "recorded"


def test_an_unfinished_episode_is_cut_and_bootstraps():
    record(gymnasium.make("Pendulum-v1"), "pendulum/short-v0", episodes=2, steps=4)
    dataset = load_dataset("minari:pendulum/short-v0")
    np.testing.assert_array_equal(dataset.truncated, [0, 0, 0, 1, 0, 0, 0, 1])
    assert dataset.transitions.terminated.sum() == 0


def test_episodes_without_any_flag_at_their_end_stay_apart():
    unended = two_steps(terminations=np.array([False, False]))
    from_buffers("log-v0", [unended, two_steps()])
    dataset = load_dataset("minari:log-v0")
    np.testing.assert_array_equal(dataset.episode_ends, [2, 4])
    np.testing.assert_array_equal(dataset.truncated, [0, 1, 0, 0])


def test_our_own_reference_scores_are_used(minari_folder: Path):
    record(gymnasium.make("Hopper-v5"), "mujoco/hopper/random-v0", episodes=1, steps=3)
    from tether.data.info import describe

    score = describe(load_dataset("minari:mujoco/hopper/random-v0"))["normalised_score"]
    total = sum(minari.load_dataset("mujoco/hopper/random-v0")[0].rewards)
    assert score["mean"] == pytest.approx(100 * (total + 20.272305) / (3234.3 + 20.272305), rel=1e-6)


def test_a_dataset_without_an_environment_loads():
    from_buffers("log-v0", [two_steps()])
    dataset = load_dataset("minari:log-v0")
    assert dataset.env_id is None
    np.testing.assert_array_equal(dataset.transitions.next_observation, [[1.0], [2.0]])
    np.testing.assert_array_equal(dataset.transitions.terminated, [0.0, 1.0])
    assert dataset.spec.action_high == (2.0,)


def test_an_action_space_without_bounds_leaves_them_to_be_found():
    from_buffers("log-v0", [two_steps()], action_space=spaces.Box(-np.inf, np.inf, (1,)))
    assert load_dataset("minari:log-v0").notes.action_bounds == "assumed"


def test_an_environment_that_would_import_code_is_left_out(minari_folder: Path):
    from_buffers("log-v0", [two_steps()])
    named = {"id": "os:Evil-v0", "entry_point": "os:system", "kwargs": {}, "additional_wrappers": []}
    rewrite(minari_folder / "log-v0", env_spec=json.dumps(named))
    assert load_dataset("minari:log-v0").env_id is None


def test_a_dataset_whose_spaces_only_its_environment_knows_is_refused(minari_folder: Path):
    from_buffers("log-v0", [two_steps()])
    rewrite(minari_folder / "log-v0", observation_space=None)
    with pytest.raises(TetherError, match="names no observation or action space"):
        load_dataset("minari:log-v0")


def rewrite(folder: Path, **changed: str | None) -> None:
    path = folder / "data" / "metadata.json"
    content = json.loads(path.read_text()) | changed
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not None}))


class TwoParts(gymnasium.Env):
    """Observations as a dictionary whose keys are not in order: the state and a goal, and a gear of three."""

    observation_space = spaces.Dict([("state", spaces.Box(-9, 9, (2,))), ("gear", spaces.Discrete(3))])
    action_space = spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return self._observe(), {}

    def step(self, action):
        self.time += 1
        return self._observe(), 1.0, False, False, {}

    def _observe(self):
        return {"state": np.array([self.time, -self.time], np.float32), "gear": self.time % 3}


@pytest.fixture
def registered() -> str:
    gymnasium.register("TetherTwoParts-v0", f"{__name__}:TwoParts", max_episode_steps=4)
    yield "TetherTwoParts-v0"
    del gymnasium.registry["TetherTwoParts-v0"]


def test_parts_are_flattened_alike_in_the_data_and_in_the_environment(registered: str):
    from tether.environments.making import make_environment

    record(gymnasium.make(registered, disable_env_checker=True), "parts-v0", episodes=1, steps=4)
    dataset = load_dataset("minari:parts-v0")
    np.testing.assert_array_equal(dataset.transitions.observation[:2], [[1, 0, 0, 0, 0], [0, 1, 0, 1, -1]])
    assert dataset.notes.observation_parts == "gear 3, state 2"
    environment = make_environment(registered, dataset.spec)
    first, _ = environment.reset(seed=0)
    second, *_ = environment.step(np.zeros(1, np.float32))
    np.testing.assert_array_equal(np.stack([first, second]), dataset.transitions.observation[:2])


class Sled(gymnasium.Env):
    """Position and speed as one vector: the position comes first."""

    observation_space = spaces.Box(-9, 9, (2,))
    action_space = spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        self.state = np.array([5.0, 0.0], np.float32)
        return self.state, {}

    def step(self, action):
        position, speed = self.state
        self.state = np.array([position + speed, speed + action[0]], np.float32)
        return self.state, -abs(float(position)), False, False, {}


class Named(gymnasium.ObservationWrapper):
    """By name, and so, in alphabetical order, with the momentum first."""

    def __init__(self, environment):
        super().__init__(environment)
        self.observation_space = spaces.Dict({"position": spaces.Box(-9, 9, (1,)), "momentum": spaces.Box(-9, 9, (1,))})

    def observation(self, observation):
        return {"position": observation[:1], "momentum": observation[1:]}


@pytest.fixture
def sled() -> str:
    gymnasium.register("TetherSled-v0", f"{__name__}:Sled", max_episode_steps=4)
    yield "TetherSled-v0"
    del gymnasium.registry["TetherSled-v0"]


def test_data_of_a_wrapped_environment_is_not_evaluated_in_the_bare_one(sled: str, tmp_path: Path):
    """As many numbers, in another order: a policy would take the position for the momentum."""
    record(Named(gymnasium.make(sled, disable_env_checker=True)), "named-v0", episodes=3, steps=4)
    record(gymnasium.make(sled, disable_env_checker=True), "plain-v0", episodes=3, steps=4)
    named, plain = load_dataset("minari:named-v0"), load_dataset("minari:plain-v0")
    assert named.transitions.observation[0].tolist() == [0.0, 5.0]
    assert plain.transitions.observation[0].tolist() == [5.0, 0.0]
    assert named.env_id == plain.env_id == sled
    # Also of what was made of it, and read from a file.
    save_dataset(subsample(named, episodes=2), tmp_path / "part.hdf5")
    message = (
        r"^environment TetherSled-v0 has other observations \(a plain vector\) than the data was recorded with "
        r"\(momentum 1, position 1\): a wrapper was between them, .* \(evaluation.env_id=none\)$"
    )
    for dataset in (named, load_dataset(tmp_path / "part.hdf5")):
        with pytest.raises(TetherError, match=message):
            Evaluator(sled, dataset.spec, 1, recorded_parts=recorded_parts(dataset.provenance))
    Evaluator(sled, plain.spec, 1, recorded_parts=recorded_parts(plain.provenance)).close()


def test_a_run_and_a_policy_of_wrapped_data_refuse_the_bare_environment(sled: str, tmp_path: Path):
    record(Named(gymnasium.make(sled, disable_env_checker=True)), "named-v0", episodes=3, steps=4)
    small = {"agent.hidden_sizes": "8,8", "agent.batch_size": "8", "training.steps": "100", "training.log_every": "100"}
    config = make_config("minari:named-v0", sled, "bc", overrides=small)
    with pytest.raises(TetherError, match="has other observations"):
        run(config, tmp_path / "run", show=False)
    assert not (tmp_path / "run" / "config.json").exists()
    policy = tether.train(config.agent, load_dataset("minari:named-v0"), steps=100)
    assert policy.about["observation_parts"] == "momentum 1, position 1"
    with pytest.raises(TetherError, match="has other observations"):
        tether.evaluate(policy, episodes=1)


def test_a_plain_vector_of_an_environment_of_parts_must_be_in_its_order():
    in_order = spaces.Dict([("a", spaces.Box(-1, 1, (1,))), ("b", spaces.Box(-1, 1, (2,)))])
    out_of_order = spaces.Dict([("b", spaces.Box(-1, 1, (2,))), ("a", spaces.Box(-1, 1, (1,)))])
    check_parts(in_order, "", "E-v0")
    check_parts(out_of_order, "a 1, b 2", "E-v0")
    with pytest.raises(TetherError, match=r"other observations \(a 1, b 2\) than the data was recorded with \(a plain vector\)"):
        check_parts(out_of_order, "", "E-v0")
    with pytest.raises(TetherError, match=r"other observations \(a 1, b 2\) than the data was recorded with \(a 2, b 1\)"):
        check_parts(in_order, "a 2, b 1", "E-v0")


def test_discrete_observations_and_actions_become_one_hot():
    record(gymnasium.make("FrozenLake-v1"), "toy/lake-v0", episodes=1, steps=3)
    lake = load_dataset("minari:toy/lake-v0")
    assert lake.spec == discrete_spec(16, 4)
    np.testing.assert_array_equal(lake.transitions.action.sum(axis=1), np.ones(lake.size))
    assert lake.transitions.observation[0, 0] == 1.0  # every walk begins at the first field
    from_buffers("chain-v0", [two_steps(observations=np.array([0, 2, 1]))], observation_space=spaces.Discrete(3))
    np.testing.assert_array_equal(load_dataset("minari:chain-v0").transitions.observation, [[1, 0, 0], [0, 0, 1]])


def test_an_export_of_choices_reads_back_the_same():
    record(gymnasium.make("CartPole-v1"), "toy/pole-v0", episodes=2, steps=5)
    pole = load_dataset("minari:toy/pole-v0")
    export_minari(pole, "toy/again-v0")
    again = load_dataset("minari:toy/again-v0")
    assert (again.spec, again.env_id) == (discrete_spec(4, 2), "CartPole-v1")
    for mine, theirs in zip(pole.transitions, again.transitions, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_both_of_minaris_formats_give_the_same_dataset():
    for version, data_format in enumerate(("hdf5", "arrow")):
        from_buffers(f"log-v{version}", [two_steps(), two_steps()], data_format=data_format)
    from_buffers("log-v2", [two_steps(), two_steps(rewards=np.array([1.0, 2.5]))])
    first, second, other = (load_dataset(f"minari:log-v{version}") for version in range(3))
    assert_same_transitions(first, second)
    assert first.sha256 == second.sha256 != other.sha256


@pytest.mark.parametrize(
    ("episode", "message"),
    [
        (two_steps(rewards=np.array([1.0, np.nan])), "log-v0, episode 0: rewards has NaN or Inf values, the first in step 1"),
        (two_steps(observations=np.zeros((2, 1), np.float32)), "2 observations for 2 steps"),
        (two_steps(actions=np.zeros((3, 1), np.float32)), "actions has 3 entries for 2 steps"),
    ],
)
def test_a_broken_episode_is_named(episode: dict, message: str):
    from_buffers("log-v0", [episode])
    with pytest.raises(TetherError, match=message):
        load_dataset("minari:log-v0")


def test_a_damaged_file_is_one_clear_error(minari_folder: Path):
    from_buffers("log-v0", [two_steps()])
    (minari_folder / "log-v0" / "data" / "main_data.hdf5").write_bytes(b"not HDF5")
    with pytest.raises(TetherError, match="log-v0: Minari cannot read it"):
        load_dataset("minari:log-v0")


@pytest.mark.parametrize("name", ["../secrets-v0", "hopper", "/etc/x-v0", "a b-v0", ""])
def test_what_is_no_id_is_refused(name: str):
    with pytest.raises(TetherError, match="is no Minari id"):
        load_dataset(f"minari:{name}")


def test_a_missing_dataset_offers_the_nearest_and_the_download():
    from_buffers("mujoco/hopper/medium-v0", [two_steps()])
    with pytest.raises(TetherError, match=r"did you mean minari:mujoco/hopper/medium-v0\? .*--download mujoco/hopper/medum-v0"):
        load_dataset("minari:mujoco/hopper/medum-v0")


@pytest.mark.parametrize("ask", [lambda: list_datasets(remote=True), lambda: download("mujoco/hopper/medium-v0")])
def test_without_a_network_the_error_says_what_to_do(ask: Callable[[], object]):
    with pytest.raises(TetherError, match=r"server cannot be reached .*MINARI_DATASETS_PATH"):
        ask()


def assert_same_transitions(one: Dataset, other: Dataset) -> None:
    for name, mine, theirs in zip(one.transitions._fields, one.transitions, other.transitions, strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=name)


def test_an_export_is_loaded_by_minari_and_read_back_identically(minari_folder: Path):
    dataset = load_dataset("halfcheetah-mixed-tether")
    made = export_minari(dataset, "mine/halfcheetah/medium-v0", author="a test")
    assert (made.episodes, made.pieces, made.env_id) == (51, 0, "HalfCheetah-v5")
    theirs = minari.load_dataset("mine/halfcheetah/medium-v0")
    assert (theirs.total_episodes, theirs.total_steps) == (51, 49_949)
    assert (theirs.env_spec.id, theirs.env_spec.max_episode_steps) == ("HalfCheetah-v5", 1000)
    assert theirs.storage.metadata["ref_max_score"] == 12135.0
    again = load_dataset("minari:mine/halfcheetah/medium-v0")
    assert_same_transitions(dataset, again)
    np.testing.assert_array_equal(dataset.truncated, again.truncated)
    assert again.spec == dataset.spec
    assert sorted(path.name for path in minari_folder.iterdir()) == ["mine"]  # nothing is left beside it


def test_an_export_cuts_an_episode_where_it_is_broken(write_hdf5):
    """Row 1 ends at 2 and row 2 begins at 5; both belong to one episode that the file says is whole."""
    path = write_hdf5(
        observations=[[0.0], [1.0], [5.0]],
        next_observations=[[1.0], [2.0], [6.0]],
        actions=[[0.1], [0.2], [0.3]],
        rewards=[1.0, 2.0, 3.0],
        terminals=[0, 0, 1],
        timeouts=[0, 0, 0],
    )
    dataset = load_dataset(path)
    made = export_minari(dataset, "broken-v0")
    assert (made.episodes, made.pieces, made.env_id) == (2, 1, None)
    again = load_dataset("minari:broken-v0")
    assert_same_transitions(dataset, again)
    np.testing.assert_array_equal(again.episode_ends, [2, 3])


def test_an_export_that_fails_leaves_nothing(minari_folder: Path, monkeypatch: pytest.MonkeyPatch):
    dataset = load_dataset("halfcheetah-mixed-tether")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(TetherError, match="disk full"):
        export_minari(dataset, "mine/halfcheetah/medium-v0")
    monkeypatch.undo()
    assert not [path for path in minari_folder.rglob("*") if path.is_file()]


def test_an_export_replaces_nothing():
    from_buffers("log-v0", [two_steps()])
    before = load_dataset("minari:log-v0").sha256
    with pytest.raises(TetherError, match="has a dataset log-v0 already"):
        export_minari(load_dataset("halfcheetah-mixed-tether"), "log-v0")
    assert load_dataset("minari:log-v0").sha256 == before
