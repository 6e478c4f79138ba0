"""Spaces made of parts become vectors: the same numbers as Gymnasium's own flatten, with keys in alphabetical order."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
from gymnasium import spaces

from tether.environments.spaces import check_flattenable, flatten_rows, in_key_order, spell_parts
from tether.errors import TetherError

BOX = spaces.Box(-1.0, 1.0, (2,))


def test_a_dict_is_flattened_by_its_keys_whatever_order_the_environment_gives_them():
    space = in_key_order(spaces.Dict(OrderedDict(z=BOX, a=spaces.Discrete(3, start=1))))
    rows = flatten_rows(space, {"z": np.array([[0.5, 0.25], [0.0, 1.0]]), "a": np.array([1, 3])})
    np.testing.assert_array_equal(rows, [[1, 0, 0, 0.5, 0.25], [0, 0, 1, 0.0, 1.0]])
    assert rows.dtype == np.float32
    assert spell_parts(space) == "a 3, z 2"


def test_the_rows_are_those_of_gymnasium():
    space = spaces.Dict(
        pose=spaces.Tuple([BOX, spaces.Box(-5, 5, (2, 3))]),
        mode=spaces.MultiDiscrete([2, 4], start=[0, 3]),
        lamps=spaces.MultiBinary(3),
        gear=spaces.Discrete(4, start=-1),
    )
    space.seed(0)
    samples = [space.sample() for _ in range(20)]
    columns = {
        "pose": tuple(np.stack([sample["pose"][part] for sample in samples]) for part in (0, 1)),
        **{key: np.stack([sample[key] for sample in samples]) for key in ("mode", "lamps", "gear")},
    }
    expected = np.stack([spaces.flatten(space, sample) for sample in samples])
    np.testing.assert_array_equal(flatten_rows(space, columns), expected.astype(np.float32))


def test_a_plain_vector_has_no_parts_to_speak_of():
    assert spell_parts(BOX) == ""
    assert spell_parts(spaces.Discrete(5)) == "Discrete 5"


@pytest.mark.parametrize(
    ("space", "reason"),
    [
        (spaces.Box(0, 255, (64, 64, 3), np.uint8), r"the observation is an image of shape \(64, 64, 3\)"),
        (spaces.Dict(arm=BOX, camera=spaces.Box(0, 255, (8, 8), np.uint8)), "the observation camera is an image"),
        (spaces.Tuple([BOX, spaces.Text(4)]), "the observation 1 is a Text space"),
        (spaces.Dict(log=spaces.Sequence(BOX)), "the observation log is a Sequence space"),
        (spaces.Dict(), "has no numbers"),
    ],
)
def test_what_is_no_vector_is_refused_with_its_place(space, reason):
    with pytest.raises(TetherError, match=reason):
        check_flattenable(space, "log-v0")


def test_a_choice_outside_its_space_is_refused():
    with pytest.raises(TetherError, match="outside its space of 3 values"):
        flatten_rows(spaces.Discrete(3), np.array([0, 3]))
