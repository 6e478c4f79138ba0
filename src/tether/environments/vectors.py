"""Environments of choices and images as Tether sees them: a choice is a one-hot row, an image a flat row of numbers.

A state that is a mere number (FrozenLake, Taxi) is a one-hot row too.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import TransformAction, TransformObservation

from tether.types import Spec, discrete_spec


def as_vectors(environment: gymnasium.Env) -> gymnasium.Env:
    """An environment of choices with one-hot actions and, where it shows images or numbered states, flat ones. Others stay."""
    choices = environment.action_space
    if not isinstance(choices, Discrete):
        return environment
    if environment.spec is not None and environment.spec.id.startswith("MinAtar/"):
        environment = FreshActions(environment)
    first = int(choices.start)
    one_hot = Box(0.0, 1.0, (int(choices.n),), np.float32)
    environment = TransformAction(environment, lambda action: first + int(np.argmax(action)), one_hot)
    shown = environment.observation_space
    if isinstance(shown, Box) and len(shown.shape) == 3:
        low, high = (np.asarray(bound, np.float32).ravel() for bound in (shown.low, shown.high))
        flat = Box(low, high, dtype=np.float32)
        environment = TransformObservation(environment, lambda image: np.asarray(image, np.float32).ravel(), flat)
        return OfChoices(environment, shown.shape)
    if isinstance(shown, Discrete):
        states = np.eye(int(shown.n), dtype=np.float32)
        row = Box(0.0, 1.0, (int(shown.n),), np.float32)
        environment = TransformObservation(environment, lambda state: states[int(state) - int(shown.start)], row)
    return OfChoices(environment)


def environment_spec(environment: gymnasium.Env) -> Spec:
    """What an environment of `as_vectors` is about."""
    observations, actions = environment.observation_space, environment.action_space
    assert isinstance(observations, Box)  # make_environment lets no other through
    assert isinstance(actions, Box)
    size, action_size, mark = observations.shape[0], actions.shape[0], _mark(environment)
    if mark is not None and mark.action_space is actions:  # else a wrapper has given the rows another meaning
        shape = mark.image_shape if mark.observation_space is observations else ()
        return discrete_spec(size, action_size, shape)
    low, high = actions.low.astype(np.float32), actions.high.astype(np.float32)
    return Spec(size, tuple(low.tolist()), tuple(high.tolist()))


def _mark(environment: gymnasium.Env) -> OfChoices | None:
    while isinstance(environment, gymnasium.Wrapper):
        if isinstance(environment, OfChoices):
            return environment
        environment = environment.env
    return None


class OfChoices(gymnasium.Wrapper):
    """Marks that the rows of `as_vectors` stand for choices, and of which shape the images are that it made flat.

    The bare environment does not tell: a wrapper between may have made choices of numbers, or the image smaller.
    """

    def __init__(self, environment: gymnasium.Env, image_shape: tuple[int, ...] = ()) -> None:
        super().__init__(environment)
        self.image_shape = image_shape


class FreshActions(gymnasium.Wrapper):
    """A game of MinAtar whose episodes do not depend on those before.

    With a chance of 0.1 a game repeats the last action, and its reset keeps that action: a resumed run, whose games are new,
    would not repeat an unbroken one.
    """

    def reset(self, **given: Any) -> Any:
        environment: Any = self.env.unwrapped
        environment.game.last_action = 0
        return self.env.reset(**given)
