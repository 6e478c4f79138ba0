"""Gymnasium environments, made with D4RL's horizons and checked against what a dataset or a policy expects."""

from __future__ import annotations

import contextlib
import difflib
import io
import re
import warnings
from collections.abc import Iterator
from importlib import import_module

import gymnasium
import mujoco
import numpy as np

from tether.environments.tasks import TASKS, find_task
from tether.environments.vectors import as_vectors, environment_spec
from tether.errors import TetherError, did_you_mean
from tether.extending import modules_of_the_folder
from tether.types import Spec

# MinAtar's games have no limit, and Breakout could go on for ever. Freeway ends one frame after this and calls it termination,
# though nothing on the screen shows the time: cut here, it is the time limit that it is.
MINATAR_HORIZON = 2_500


def make_environment(
    env_id: str, spec: Spec | None = None, render_mode: str | None = None, recorded_parts: str | None = None
) -> gymnasium.Env:
    """A registered environment with vector observations and actions; with `spec`, one whose sizes are those.

    Choices are one-hot rows and images are flat rows here, see `as_vectors`; observations made of parts are flattened, in the
    order in which datasets of such are read (`spaces.py`). Tasks of D4RL get D4RL's horizon (pen: 100 steps, where
    gymnasium-robotics has 200), and MinAtar's games one of their own. `recorded_parts` are what its observations must be put
    together of, where that is known (`spaces.check_parts`). One of your own is `module:ID`: the module is
    imported, and registers it.
    """
    address, env_id = env_id, bare_id(env_id)
    if address != env_id:
        _import_module(address)
    if env_id.startswith("Adroit"):
        _register_adroit(env_id)
    if env_id.startswith("MinAtar/"):
        _register_minatar(env_id)
    if env_id not in gymnasium.registry:
        near = difflib.get_close_matches(env_id, gymnasium.registry) or [task.env_ids[0] for task in TASKS.values()]
        raise TetherError(f"no environment {env_id!r} in Gymnasium{did_you_mean(env_id, near)}")
    horizon = _horizon(env_id)
    drawing = {} if render_mode is None else {"render_mode": render_mode}  # not every environment takes it
    try:
        with _quiet():
            bare = gymnasium.make(env_id, max_episode_steps=horizon, disable_env_checker=True, **drawing)
    except (gymnasium.error.Error, ImportError) as error:
        reason = " ".join(str(error).split())
        ours = "; pip install 'tether-rl[discrete]' brings it" if re.search("box2d|pygame", reason, re.IGNORECASE) else ""
        raise TetherError(f"environment {env_id} cannot be made: {reason}{ours}") from error
    return wrap_environment(bare, env_id, spec, recorded_parts)


def bare_id(env_id: str) -> str:
    """Without the module that registers it."""
    return env_id.rpartition(":")[2]


def wrap_environment(
    bare: gymnasium.Env, env_id: str, spec: Spec | None = None, recorded_parts: str | None = None
) -> gymnasium.Env:
    """The same of an environment that has been made already; it is closed where it does not fit.

    It gets the horizon of its task where its own is longer, or it has none: scores are of returns within it.
    """
    horizon, limit = _horizon(env_id), time_limit(bare)
    environment = bare
    if horizon is not None and (limit is None or limit > horizon):
        environment = gymnasium.wrappers.TimeLimit(bare, horizon)
    environment = as_vectors(environment)
    try:
        if recorded_parts is not None:
            from tether.environments.spaces import check_parts

            check_parts(bare.observation_space, recorded_parts, env_id)
        environment = _flattened(environment, env_id)
        _check_spaces(environment, env_id, spec)
    except TetherError:
        environment.close()
        raise
    return environment


def time_limit(environment: gymnasium.Env) -> int | None:
    """The steps after which a wrapper cuts an episode. What the `spec` has is no limit yet: `unwrapped` has it too."""
    limits = []
    while isinstance(environment, gymnasium.Wrapper):
        if isinstance(environment, gymnasium.wrappers.TimeLimit):
            limits.append(environment._max_episode_steps)  # its public form is in the spec, which not every environment has
        environment = environment.env
    return min(limits, default=None)


def _horizon(env_id: str) -> int | None:
    """The steps of an episode in D4RL and in MinAtar's games; None: the environment's own."""
    if env_id.startswith("MinAtar/"):
        return MINATAR_HORIZON
    task = find_task(env_id)
    return None if task is None else task.horizon


def _flattened(environment: gymnasium.Env, env_id: str) -> gymnasium.Env:
    """With observations as vectors, where they are dictionaries, tuples or choices."""
    if isinstance(environment.observation_space, gymnasium.spaces.Box):
        return environment
    from tether.environments.spaces import check_flattenable, in_key_order

    space = in_key_order(environment.observation_space)
    check_flattenable(space, f"environment {env_id}")
    flat = gymnasium.spaces.flatten_space(space)
    return gymnasium.wrappers.TransformObservation(
        environment, lambda observation: gymnasium.spaces.flatten(space, observation), flat
    )


def action_limits(environment: gymnasium.Env) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest action, each (A,) float32, of an environment from `make_environment`."""
    space = environment.action_space
    assert isinstance(space, gymnasium.spaces.Box)  # make_environment lets no other through
    return space.low.astype(np.float32), space.high.astype(np.float32)


def _import_module(address: str) -> None:
    """Run a module of the user's, which registers environments. Files of data never name one: see `is_plain_env_id`."""
    module = address.rpartition(":")[0]
    try:
        with modules_of_the_folder():
            import_module(module)
    except (ImportError, ValueError) as error:
        raise TetherError(
            f"no environment {address!r}: {error}; {module} must be an installed module, or {module}.py in the current folder, "
            "that registers the environment (gymnasium.register)"
        ) from error


def _register_adroit(env_id: str) -> None:
    try:
        # On import it prints that the rewards of door, hammer and relocate changed in 1.2.1; our docs say so once.
        with contextlib.redirect_stderr(io.StringIO()):
            import gymnasium_robotics
    except ImportError as error:
        raise TetherError(f"environment {env_id} needs gymnasium-robotics: pip install 'tether-rl[adroit]'") from error
    gymnasium.register_envs(gymnasium_robotics)


def _register_minatar(env_id: str) -> None:
    try:
        from minatar.gym import register_envs
    except ImportError as error:
        raise TetherError(f"environment {env_id} needs MinAtar: pip install 'tether-rl[discrete]'") from error
    if "MinAtar/Breakout-v1" not in gymnasium.registry:
        register_envs()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No notices that an environment's version or its model file is old: the version is what the data was recorded in."""
    handler = mujoco.get_mju_user_warning()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is out of date", category=DeprecationWarning)
        # Box2D's bindings; as an error it would end the process.
        warnings.filterwarnings("ignore", message="builtin type .* has no __module__", category=DeprecationWarning)
        # MuJoCo's own handler would also write MUJOCO_LOG.TXT into the working folder.
        mujoco.set_mju_user_warning(lambda message: None)
        try:
            yield
        finally:
            mujoco.set_mju_user_warning(handler)


def _check_spaces(environment: gymnasium.Env, env_id: str, spec: Spec | None) -> None:
    needed = {
        "observations": "vectors of numbers (a Box of one axis), or images (three axes) where actions are choices",
        "actions": "vectors of numbers (a Box of one axis) or choices (Discrete)",
    }
    for what, space in (("observations", environment.observation_space), ("actions", environment.action_space)):
        if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
            raise TetherError(f"environment {env_id} has {what} of {space}; Tether needs {needed[what]}")
    if spec is None:
        return
    here = environment_spec(environment)
    if here.discrete != spec.discrete:
        kinds = ["discrete" if one.discrete else "continuous" for one in (here, spec)]
        raise TetherError(f"environment {env_id} has {kinds[0]} actions, the dataset has {kinds[1]} ones")
    unit = "choices" if spec.discrete else "numbers"
    for what, size, wanted, of in (
        ("observations", here.observation_size, spec.observation_size, "numbers"),
        ("actions", here.action_size, spec.action_size, unit),
    ):
        if size != wanted:
            raise TetherError(f"environment {env_id} has {what} of {size} {of}, the dataset has {wanted}")
