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
        return TransformObservation(environment, lambda image: np.asarray(image, np.float32).ravel(), flat)
    if isinstance(shown, Discrete):
        states = np.eye(int(shown.n), dtype=np.float32)
        row = Box(0.0, 1.0, (int(shown.n),), np.float32)
        return TransformObservation(environment, lambda state: states[int(state) - int(shown.start)], row)
    return environment


def environment_spec(environment: gymnasium.Env) -> Spec:
    """What an environment of `as_vectors` is about."""
    observations, actions = environment.observation_space, environment.action_space
    assert isinstance(observations, Box)  # make_environment lets no other through
    assert isinstance(actions, Box)
    if isinstance(environment.unwrapped.action_space, Discrete):
        shape = environment.unwrapped.observation_space.shape or ()
        return discrete_spec(observations.shape[0], actions.shape[0], shape if len(shape) == 3 else ())
    low, high = actions.low.astype(np.float32), actions.high.astype(np.float32)
    return Spec(observations.shape[0], tuple(low.tolist()), tuple(high.tolist()))


class FreshActions(gymnasium.Wrapper):
    """A game of MinAtar whose episodes do not depend on those before.

    With a chance of 0.1 a game repeats the last action, and its reset keeps that action: a resumed run, whose games are new,
    would not repeat an unbroken one.
    """

    def reset(self, **given: Any) -> Any:
        environment: Any = self.env.unwrapped
        environment.game.last_action = 0
        return self.env.reset(**given)
