"""Familiarity: calibrated on held-out pairs, honest about the smallest value, and of use to whoever asks."""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from shipped import MADE, OBSERVATIONS, SPEC, experience, frozen, shipped

from tether import storage
from tether.errors import TetherError
from tether.policies import Policy, load_policy
from tether.runtime import OutsideRange, Unfamiliar
from tether.runtime import load_policy as load_without_jax
from tether.runtime.experience import Experience, quantiles

BEFORE = Path(__file__).parents[1] / "runs" / "written_before"
INSIDE = np.zeros(3, np.float32)
FAR = np.array([0.0, 90.0, 0.0], np.float32)


def of(values: list[float]) -> Experience:
    """Nothing but the values of a bonus on held-out pairs; one column, recorded between 0 and 5."""
    knots, shares = quantiles(np.array(values))
    bounds = np.zeros(1, np.float32), np.full(1, 5.0, np.float32)
    recorded = np.array([[0.0], [5.0]], np.float32), np.array([[-1.0], [1.0]], np.float32)
    return Experience({"name": "rnd"}, {}, knots, shares, len(values), 1, *bounds, *recorded)


def test_familiarity_by_hand():
    # Four held-out pairs. At 3, two are at least as unusual (3 and 4): 2 of 4 + 1. Between them, linear. Never below 1 of 5.
    found = of([1.0, 2.0, 3.0, 4.0]).familiarity(np.array([0.0, 1.0, 2.5, 3.0, 4.0, 1e9]))
    np.testing.assert_allclose(found, [4 / 5, 4 / 5, 2.5 / 5, 2 / 5, 1 / 5, 1 / 5], rtol=1e-6)
    assert of([1.0, 2.0, 3.0, 4.0]).smallest == 1 / 5


def test_a_bonus_that_is_no_number_is_as_unusual_as_can_be_told():
    assert of([1.0, 2.0, 3.0, 4.0]).familiarity(np.array([np.nan, np.inf])).tolist() == pytest.approx([1 / 5, 1 / 5])


def test_equal_values_are_all_at_least_as_unusual():
    # Counts have few values: seven pairs at 1, two at 2 that nobody saw before.
    found = of([1.0] * 7 + [2.0] * 2).familiarity(np.array([1.0, np.nextafter(np.float32(1.0), 2.0), 2.0, 3.0]))
    np.testing.assert_allclose(found, [9 / 10, 9 / 10, 2 / 10, 1 / 10], atol=1e-5)


@pytest.mark.parametrize("shape", [0.1, 1.0, 3.0])
def test_it_is_uniform_on_fresh_pairs(shape: float):
    """Whatever the distribution of the bonus: the share of fresh pairs below any level is that level."""
    random = np.random.default_rng(3)
    held_out, fresh = random.lognormal(sigma=shape, size=10_000), random.lognormal(sigma=shape, size=10_000)
    values, shares = quantiles(held_out)
    assert len(values) <= 512
    assert shares[-1] == np.float32(1 / 10_001)
    found = np.sort(np.interp(fresh, values, shares))
    # Kolmogorov and Smirnov's distance of two samples of n: a chance of 1e-4 to be above 2.2 / sqrt(n / 2).
    assert np.abs(found - (np.arange(10_000) + 0.5) / 10_000).max() < 2.2 / np.sqrt(5_000)
    for level in (0.001, 0.01, 0.1):
        assert np.mean(found <= level) == pytest.approx(level, rel=0.6)


def test_the_quantiles_lose_little_of_all_values():
    values = np.random.default_rng(0).gamma(2.0, size=5_000)
    asked = np.sort(np.random.default_rng(1).gamma(2.0, size=1_000))
    exact = (values[None, :] >= asked[:, None]).sum(axis=1) / 5_001
    assert np.abs(np.interp(asked, *quantiles(values)) - exact).max() < 0.004


@pytest.mark.parametrize(("values", "reason"), [([1.0], "1 values"), ([1.0, np.nan], "not finite"), ([2.0] * 9, "one value, 2,")])
def test_values_that_say_nothing_are_refused(values: list[float], reason: str):
    with pytest.raises(TetherError, match=reason):
        quantiles(np.array(values))


def test_the_nearest_is_so_in_units_of_each_column():
    # The columns have standard deviations of 1 and 50. From (0, 60) the first is 1.2 away and the second 2.15; in plain numbers
    # the second would be nearer, 40 against 60.
    known = replace(of([1.0, 2.0]), observation=np.float32([[0, 0], [2, 100]]), action=np.float32([[-1], [1]]))
    np.testing.assert_array_equal(known.nearest(np.float32([[0, 60], [2, 70]])), [[-1], [1]])


# Asking


def test_one_observation_and_a_batch():
    policy = shipped("deterministic")
    action, familiarity = policy.act(INSIDE, with_familiarity=True)
    actions, several = policy.act(np.stack([INSIDE, INSIDE]), with_familiarity=True)
    assert isinstance(familiarity, float)
    np.testing.assert_allclose([action, action], actions, rtol=1e-6)
    np.testing.assert_allclose([familiarity, familiarity], several, rtol=1e-5)
    np.testing.assert_array_equal(policy.act(INSIDE), policy(INSIDE))
    assert familiarity == pytest.approx(policy.familiarity(INSIDE, action), abs=1e-6)


def test_what_is_far_away_is_unfamiliar_and_the_column_is_named():
    made = shipped("deterministic")
    columns = {"observation": ["level", "speed", "load"], "action": ["valve", "pump"], "units": {"speed": "m/s"}}
    policy = replace(made, about={"columns": columns})
    with pytest.warns(OutsideRange, match=r"outside the recorded range: speed 90 m/s \(recorded -[\d.]+ to [\d.]+\)$"):
        _, familiarity = policy.act({"load": 0.0, "level": 0.0, "speed": 90.0}, with_familiarity=True)
    assert familiarity == pytest.approx(1 / 401)
    assert policy.outside(FAR) == ["speed"]
    assert made.outside(FAR) == ["1"]
    with pytest.warns(OutsideRange, match=r"number 1 \(counted from 0\) 90 \("):
        made.act(FAR)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy(FAR)  # stays as it is


def test_each_fallback():
    policy = shipped("deterministic")
    batch = np.stack([INSIDE, FAR])
    own, familiarity = (
        policy(batch),
        [pytest.approx(policy.act(INSIDE, with_familiarity=True)[1], abs=1e-5), pytest.approx(1 / 401)],
    )
    with pytest.warns(OutsideRange):
        nearest, found = policy.act(batch, with_familiarity=True, fallback="nearest", threshold=0.01)
    known = policy.experience
    spread = known.observation.std(axis=0)
    closest = np.argmin((((known.observation - FAR) / spread) ** 2).sum(axis=1))
    np.testing.assert_array_equal(nearest, [own[0], known.action[closest]])
    assert list(found) == familiarity
    with pytest.warns(OutsideRange):
        mine = policy.act(batch, fallback=lambda observation: [observation[1] / 90.0, 3.0], threshold=0.01)
    np.testing.assert_array_equal(mine, [own[0], [1.0, 3.0]])
    with (
        pytest.warns(OutsideRange),
        pytest.raises(Unfamiliar, match=r"familiarity 0\.0025 in row 1 .* below 0\.01; outside the recorded range: n") as raised,
    ):
        policy.act(batch, fallback="error", threshold=0.01)
    assert list(raised.value.familiarity) == familiarity
    np.testing.assert_array_equal(policy.act(batch[:1], fallback="error", threshold=0.0), own[:1])


HUGE = np.array([0.1, 3.4e38, 0.2], np.float32)  # what some loggers write where they have nothing


@pytest.mark.parametrize("bonus", ["rnd", "density", "rnd-film", "classifier"])
def test_what_overflows_is_not_taken_for_familiar(bonus: str):
    policy = shipped("deterministic", bonus)
    with pytest.warns(OutsideRange), pytest.raises(Unfamiliar, match=r"the policy has not seen this: familiarity 0\.0025"):
        policy.act(HUGE, fallback="error")
    with pytest.warns(OutsideRange):
        action, familiarity = policy.act(HUGE, with_familiarity=True, fallback="nearest")
    assert familiarity == pytest.approx(1 / 401)
    assert (action == policy.experience.action).all(axis=1).any()


def test_nothing_but_finite_actions_is_given():
    policy = shipped("tethered")
    assert not np.isfinite(policy.rows_to_actions(HUGE[None])).all()
    for ask in (policy, policy.act):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsideRange)
            with pytest.raises(TetherError, match=r"has 3\.4e\+38 as number 1 \(counted from 0\), too large for the policy"):
                ask(HUGE)
            with pytest.raises(TetherError, match=r"number 1 \(counted from 0\) in row 1 \(counted from 0\), too large"):
                ask(np.stack([INSIDE, HUGE]))


def test_a_fallback_that_would_never_act_is_refused():
    whole, (values, shares) = shipped("deterministic"), quantiles(np.arange(60.0) / 60.0)
    few = replace(whole, experience=replace(whole.experience, values=values, shares=shares, pairs=60))
    match = r"familiarity is never below 0\.016 here \(60 pairs were held out\), so a fallback at 0\.01 would never act"
    for fallback in ("nearest", "error", lambda _: [0.0, 0.0]):
        with pytest.raises(TetherError, match=match):
            few.act(INSIDE, fallback=fallback)
        few.act(INSIDE, fallback=fallback, threshold=0.0)  # none, and says so
        with pytest.warns(OutsideRange), pytest.raises(Unfamiliar):
            few.act(FAR, fallback="error", threshold=0.02)


def test_a_fallback_for_choices_gives_a_choice():
    policy = shipped("greedy")
    with pytest.warns(OutsideRange):
        assert policy.act(FAR, fallback=lambda _: 1) == 1
    with pytest.warns(OutsideRange):
        assert policy.act(FAR, fallback="nearest") in (0, 1)
    with pytest.warns(OutsideRange), pytest.raises(TetherError, match="an action is a whole number from 0 to 1, one for each"):
        policy.act(FAR, fallback=lambda _: 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fallback": "neerest"}, r"the fallback is 'neerest'; it takes 'nearest', 'error', or a function"),
        ({"fallback": "error", "threshold": 2.0}, r"the threshold is 2\.0; familiarity is between 0 and 1"),
        ({"fallback": "error", "threshold": float("nan")}, r"the threshold is nan"),
        ({"fallback": lambda _: [1.0], "threshold": 1.0}, r"the action must be \(2,\) finite numbers; got \[1\.0\]"),
        ({"fallback": lambda _: [1.0, np.inf], "threshold": 1.0}, r"the action must be \(2,\) finite numbers"),
    ],
)
def test_what_is_asked_wrongly_is_refused(arguments: dict[str, object], message: str):
    with pytest.raises(TetherError, match=message):
        shipped("deterministic").act(INSIDE, **arguments)


def test_a_policy_without_experience_says_why_and_what_to_do():
    policy = Policy(*MADE["deterministic"], {"no_familiarity": "it was trained without a bonus"})
    with pytest.raises(TetherError, match=r"how familiar an observation is: it was trained without a bonus\. `tether export RUN"):
        policy.act(INSIDE, with_familiarity=True)
    policy.act(FAR)


# Files


@pytest.mark.parametrize("name", ["td3-cvae", "bc", "dqn-count-exact"])
def test_files_of_earlier_versions_are_run_without_jax(name: str):
    read = load_policy(BEFORE / name)
    observation = np.linspace(-1, 1, 3 * read.spec.observation_size, dtype=np.float32).reshape(3, -1)
    np.testing.assert_allclose(load_without_jax(BEFORE / name)(observation), read(observation), rtol=1e-5)
    with pytest.raises(TetherError, match="it was written by an earlier Tether"):
        read.act(observation, with_familiarity=True)


def edited(path: Path, metadata: dict[str, str], **arrays: np.ndarray) -> Path:
    tensors, found = storage.read_tensors(path)
    changed = path.with_name(f"edited-{len(list(path.parent.iterdir()))}.safetensors")
    storage.write_tensors(changed, tensors | {name.replace("__", "/"): array for name, array in arrays.items()}, found | metadata)
    return changed


@pytest.mark.parametrize("load", [load_policy, load_without_jax])
def test_an_edited_file_is_refused(load, tmp_path):
    path = tmp_path / "policy.safetensors"
    shipped("deterministic").save(path)
    for changed, message in [
        (edited(path, {"version": "4"}), r"is a policy file of version 4, this Tether reads those up to 3; upgrade Tether"),
        (edited(path, {"familiarity": "{}"}), r"was edited or damaged: its header cannot be read \(KeyError"),
        (edited(path, {"spec": "not json"}), r"was edited or damaged"),
        (
            edited(path, {}, familiarity__values=np.zeros(7, np.float32)),
            r"quantiles of the bonus or the recorded ranges do not fit",
        ),
        (edited(path, {}, recorded__low=np.zeros(2, np.float32)), r"quantiles of the bonus or the recorded ranges do not fit"),
    ]:
        with pytest.raises(TetherError, match=message):
            load(changed)


def test_arrays_that_do_not_fit_are_refused_when_they_are_read(tmp_path):
    path = tmp_path / "policy.safetensors"
    shipped("deterministic").save(path)
    with pytest.raises(TetherError, match="the policy cannot be run"):
        load_without_jax(edited(path, {}, **{"network__weights__1": np.zeros((7, 2), np.float32)}))
    shutil.copy(path, tmp_path / "cut.safetensors")
    (tmp_path / "cut.safetensors").write_bytes(path.read_bytes()[:-9])
    with pytest.raises(TetherError, match="is cut short, damaged or not a safetensors file"):
        load_without_jax(tmp_path / "cut.safetensors")


def test_the_file_says_its_version_and_what_its_bonus_is(tmp_path):
    Policy(MADE["deterministic"][0], SPEC, {}, experience(frozen("cvae", SPEC))).save(tmp_path / "policy.safetensors")
    metadata = storage.read_tensors(tmp_path / "policy.safetensors")[1]
    assert metadata["version"] == "3"
    found = json.loads(metadata["familiarity"])
    assert (found["pairs"], found["episodes"], found["bonus"]["name"], found["bonus"]["latent"]) == (400, 4, "cvae", "mean")
    told = repr(load_without_jax(tmp_path / "policy.safetensors"))
    assert told.endswith("familiarity by cvae, against 400 held-out pairs of 4 episodes (smallest 0.0025)")
    assert len(OBSERVATIONS) == 50
