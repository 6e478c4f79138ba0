"""Text and JSON become settings by the types of the fields, and nothing is guessed."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

import pytest

from tether import settings
from tether.agents import AGENTS
from tether.bonuses import BONUSES
from tether.config import EvaluationConfig, TrainingConfig
from tether.errors import TetherError


@dataclass(frozen=True)
class Kitchen:
    """One field of each type that settings have."""

    plates: int = 4  # deep ones: for soup
    heat: float = 0.5
    open: bool = False
    name: str = "galley"
    fuel: Literal["gas", "wood"] = "gas"
    pans: tuple[int, int] = (20, 24)


KITCHEN = {"plates": 4, "heat": 0.5, "open": False, "name": "galley", "fuel": "gas", "pans": [20, 24]}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("plates", "12", 12),
        ("plates", "1_000", 1000),
        ("plates", 7.0, 7),
        ("heat", "3e-4", 0.0003),
        ("heat", "inf", math.inf),
        ("heat", "2", 2.0),
        ("heat", 2, 2.0),
        ("open", "true", True),
        ("open", "No", False),
        ("open", "1", True),
        ("open", True, True),
        ("name", "", ""),
        ("name", "7", "7"),
        ("fuel", "wood", "wood"),
        ("pans", "16,32", (16, 32)),
        ("pans", "(16, 32)", (16, 32)),
        ("pans", "[16, 32]", (16, 32)),
        ("pans", [16, 32], (16, 32)),
    ],
)
def test_a_setting_is_read_as_the_type_of_its_field(name: str, text: Any, expected: Any):
    changed = settings.changed(Kitchen(), name, text, "kitchen")
    assert getattr(changed, name) == expected
    assert type(getattr(changed, name)) is type(expected)
    assert dataclasses.replace(changed, **{name: getattr(Kitchen(), name)}) == Kitchen()  # nothing else has changed


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("plates", "many", "kitchen.plates is 'many'; it takes a whole number"),
        ("plates", "1.5", "kitchen.plates is '1.5'; it takes a whole number"),
        ("plates", 1.5, "kitchen.plates is 1.5; it takes a whole number"),
        ("plates", math.inf, "kitchen.plates is inf; it takes a whole number"),
        ("plates", True, "kitchen.plates is True; it takes a whole number"),
        ("plates", None, "kitchen.plates is None; it takes a whole number"),
        ("plates", "", "kitchen.plates is ''; it takes a whole number"),
        ("heat", "hot", "kitchen.heat is 'hot'; it takes a number"),
        ("heat", [1.0], "kitchen.heat is [1.0]; it takes a number"),
        ("open", "maybe", "kitchen.open is 'maybe'; it takes true or false"),
        ("name", 7, "kitchen.name is 7; it takes text"),
        ("name", None, "kitchen.name is None; it takes text"),
        ("fuel", "coal", "kitchen.fuel is 'coal'; it takes gas or wood"),
        ("pans", "16", "kitchen.pans is '16'; it takes 2 numbers with a comma between, such as 256,256"),
        ("pans", "16,24,32", "kitchen.pans is '16,24,32'; it takes 2 numbers with a comma between, such as 256,256"),
        ("pans", "16,big", "kitchen.pans is '16,big'; it takes 2 numbers with a comma between, such as 256,256"),
        ("pans", 16, "kitchen.pans is 16; it takes 2 numbers with a comma between, such as 256,256"),
    ],
)
def test_a_wrong_value_says_what_the_setting_takes(name: str, value: Any, message: str):
    with pytest.raises(TetherError) as raised:
        settings.changed(Kitchen(), name, value, "kitchen")
    assert str(raised.value) == message


def test_an_unknown_setting_offers_the_nearest():
    with pytest.raises(TetherError) as raised:
        settings.changed(Kitchen(), "heatt", "3", "kitchen")
    assert str(raised.value) == "no setting kitchen.heatt; did you mean kitchen.heat?"


@pytest.mark.parametrize("kind", [*AGENTS.values(), *BONUSES.values(), TrainingConfig, EvaluationConfig])
def test_every_setting_there_is_has_a_type_that_can_be_read(kind: type):
    hints = get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        default = getattr(kind(), field.name)
        if dataclasses.is_dataclass(default):
            assert settings.convert(settings.to_plain(default), hints[field.name], field.name) == default
            continue
        text = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
        assert settings.convert(text, hints[field.name], field.name) == default
        with pytest.raises(TetherError, match=f"^{field.name} is None; it takes "):
            settings.convert(None, hints[field.name], field.name)


def test_plain_settings_build_the_same_again():
    assert settings.to_plain(Kitchen()) == KITCHEN
    assert settings.build(Kitchen, KITCHEN, "kitchen") == Kitchen()


def test_fields_that_are_built_already_are_taken_as_they_are():
    given = {name: value for name, value in KITCHEN.items() if name != "pans"}
    assert settings.build(Kitchen, given, "", pans=(1, 2)) == Kitchen(pans=(1, 2))
    with pytest.raises(TetherError, match=r"^no setting pans; "):
        settings.build(Kitchen, KITCHEN, "", pans=(1, 2))


def test_an_unknown_field_is_refused():
    with pytest.raises(TetherError) as raised:
        settings.build(Kitchen, KITCHEN | {"haet": 1.0}, "kitchen")
    assert str(raised.value) == "no setting kitchen.haet; did you mean kitchen.heat?"


def test_limits_stand_beside_the_field_and_nowhere_else():
    @dataclasses.dataclass(frozen=True)
    class Soft:
        log_std_min: float = -20.0  # nobody says that it must not be negative
        target_entropy: float = -3.0
        tau: settings.Share = 0.005
        pans: tuple[settings.Size, ...] = (20,)

    settings.check(Soft(), "agent")
    for soft, message in [
        (Soft(tau=1.5), "agent.tau is 1.5; it must be at most 1"),
        (Soft(tau=-0.5), "agent.tau is -0.5; it must not be negative"),
        (Soft(pans=(4, 0)), "agent.pans is 0; it must be at least 1"),
        (Soft(target_entropy=float("nan")), "agent.target_entropy is nan; it must be a number"),
    ]:
        with pytest.raises(TetherError) as raised:
            settings.check(soft, "agent")
        assert str(raised.value) == message


def test_a_missing_field_is_refused():
    with pytest.raises(TetherError) as raised:
        settings.build(Kitchen, {name: value for name, value in KITCHEN.items() if name != "heat"}, "kitchen")
    assert str(raised.value) == "setting kitchen.heat is missing"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("agent.discount=0.9", ("agent.discount", "0.9")),
        (" agent.discount = 0.9 ", ("agent.discount", "0.9")),
        ("evaluation.env_id=", ("evaluation.env_id", "")),
        ("evaluation.env_id=a=b", ("evaluation.env_id", "a=b")),
    ],
)
def test_name_equals_value_is_taken_apart(text: str, expected: tuple[str, str]):
    assert settings.parse(text) == expected


@pytest.mark.parametrize("text", ["agent.discount", "=0.9", ""])
def test_what_is_not_name_equals_value_is_refused(text: str):
    with pytest.raises(TetherError, match=r"write it as NAME=VALUE, such as agent\.discount=0\.98"):
        settings.parse(text)


def test_settings_are_described_by_their_defaults_and_the_comments_beside_them():
    assert settings.described(Kitchen) == [
        ("plates", "4", "deep ones: for soup"),
        ("heat", "0.5", ""),
        ("open", "false", ""),
        ("name", "galley", ""),
        ("fuel", "gas", ""),
        ("pans", "20,24", ""),
    ]


@pytest.mark.parametrize("kind", [*AGENTS.values(), *BONUSES.values(), TrainingConfig, EvaluationConfig])
def test_a_described_default_can_be_given_back(kind: type):
    for name, default, _ in settings.described(kind):
        assert settings.changed(kind(), name, default, "x") == kind()
