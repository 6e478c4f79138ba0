"""What a policy takes, and what it refuses: a wrong observation must not get an action that looks like any other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tether
from tether.errors import TetherError
from tether.networks import Layers
from tether.policies import Policy
from tether.policies.deterministic import make_deterministic
from tether.runtime import load_policy
from tether.runtime.observations import as_rows
from tether.types import Spec, discrete_spec

SPEC = Spec(3, (-1.0,), (1.0,))
NAMES = ["speed", "pressure", "heat"]
ROWS = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)
COLUMNS = {"heat": ROWS[:, 2], "speed": ROWS[:, 0], "pressure": ROWS[:, 1]}  # in another order
ONE = {"heat": 3.0, "speed": 1.0, "pressure": 2.0}


def policy(names: list[str] | None = NAMES) -> Policy:
    actor = make_deterministic(jax.random.key(1), SPEC, Layers((8, 8), ("tanh", "elu")))
    return Policy(actor, SPEC, {} if names is None else {"columns": {"observation": names, "action": ["valve"]}})


def structured() -> np.ndarray:
    table = np.zeros(2, dtype=[("heat", float), ("speed", "f4"), ("pressure", int)])
    for name, column in COLUMNS.items():
        table[name] = column
    return table


MANY = {
    "a dict": COLUMNS,
    "a DataFrame": pd.DataFrame(COLUMNS),
    "a structured array": structured(),
    "an Arrow table": pa.table(COLUMNS),
    "an array": ROWS.astype(np.float64),
    "a table without names": pd.DataFrame(ROWS),
}
SINGLE = {
    "a dict": ONE,
    "a row of a DataFrame": pd.DataFrame(COLUMNS).iloc[0],
    "a row of a structured array": structured()[0],
    "a list": [1.0, 2.0, 3.0],
}


@pytest.mark.parametrize("given", MANY.values(), ids=MANY)
def test_columns_by_name_are_put_in_order(given: Any):
    np.testing.assert_array_equal(as_rows(given, SPEC, NAMES), ROWS)
    made = policy()
    np.testing.assert_array_equal(made(given), made(ROWS))


@pytest.mark.parametrize("given", SINGLE.values(), ids=SINGLE)
def test_one_observation_by_name_is_one(given: Any):
    np.testing.assert_array_equal(as_rows(given, SPEC, NAMES), ROWS[0])
    assert policy()(given).shape == (1,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {**ONE, "presure": 2.0},
            "the policy knows no column 'presure'; did you mean pressure? (it takes exactly those it learnt from)",
        ),
        ({"speed": 1.0, "heat": 3.0}, "the observation lacks the column 'pressure'; the policy takes speed, pressure, heat"),
        (ONE | {"heat": [1.0, 2.0]}, "column 'heat' has shape (2,), column 'speed' (); one number a row is taken"),
        (ONE | {"heat": "hot"}, "column 'heat' is not made of numbers: text is not taken for numbers"),
        (pd.DataFrame(ROWS, columns=["heat", "speed", "heat"]), "the observation has two columns 'heat'"),
        ([1.0, 2.0], "the policy takes observations of shape (3,) or (B, 3), which are speed, pressure, heat; got (2,)"),
        (ONE | {"heat": np.nan}, "the observation has nan as 'heat'; a policy acts on finite numbers only"),
        (ONE | {"heat": 1e39}, "the observation has inf as 'heat'; a policy acts on finite numbers only"),
        (
            pd.DataFrame(COLUMNS | {"pressure": [1.0, -np.inf], "heat": [2.0, np.nan]}),
            "the observation has -inf as 'pressure' in row 1 (counted from 0), and 1 more entries are not finite; "
            "a policy acts on finite numbers only",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(given: Any, message: str):
    with pytest.raises(TetherError) as raised:
        policy()(given)
    assert str(raised.value) == message


def test_a_policy_without_names_takes_numbers_and_says_which_is_not_finite():
    made = policy(None)
    assert made.columns is None
    with pytest.raises(TetherError, match=r"^the observation has nan as number 1 \(counted from 0\); a policy acts on finite"):
        made([0.0, np.nan, 0.0])
    with pytest.raises(
        TetherError, match=r"^the observation has columns by name \(heat, speed, pressure\), and the policy knows none"
    ):
        made(COLUMNS)
    with pytest.raises(TetherError, match=r"^the observation is not made of numbers: "):
        made([[1.0, 2.0, 3.0], [1.0]])


def test_an_image_keeps_its_shape_and_must_be_finite():
    spec = discrete_spec(12, 2, (2, 3, 2))
    image = np.arange(12.0).reshape(2, 3, 2)
    np.testing.assert_array_equal(as_rows(image, spec, None), np.arange(12.0))
    assert as_rows(np.stack([image, image]), spec, None).shape == (2, 12)
    image[1, 0, 0] = np.inf
    with pytest.raises(TetherError, match=r"^the observation has inf as number 6 "):
        as_rows(image, spec, None)


@pytest.mark.parametrize("load", [tether.load_policy, load_policy])
def test_predict_is_what_users_of_stable_baselines_expect(load: Callable[[Path], Any], tmp_path: Path):
    policy().save(tmp_path / "policy.safetensors")
    made = load(tmp_path / "policy.safetensors")
    action, state = made.predict(ROWS, state=None, episode_start=np.ones(2, bool), deterministic=True)
    np.testing.assert_array_equal(action, made(ROWS))
    assert state is None
    with pytest.raises(TetherError, match=r"^the policy has no chance in it; call predict with deterministic=True$"):
        made.predict(ROWS, deterministic=False)


def test_a_policy_says_what_it_is():
    assert repr(policy()) == "Policy (Deterministic): speed, pressure, heat -> 1 numbers in [-1, 1]"
    made = policy(None)
    about = {"dataset": "log", "policy": "target", "step": 7, "env_id": None}
    assert repr(Policy(made.actor, SPEC, about)) == (
        "Policy (Deterministic): 3 numbers -> 1 numbers in [-1, 1]\n  learnt from log, policy target, at step 7"
    )
