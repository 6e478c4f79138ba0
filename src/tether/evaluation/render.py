"""One episode of a policy as a small GIF, also on machines without a display."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import mujoco
import numpy as np
from PIL import Image

from tether.environments.making import action_limits, make_environment
from tether.errors import TetherError
from tether.evaluation.rollout import Act, check_length
from tether.storage import replacing
from tether.types import Spec

SIDE = 240  # pixels of the longer side
FRAMES_PER_SECOND = 20
MAX_FRAMES = 200  # the film stops there; the episode still runs to its end
COLOURS = 64

_BACKENDS = ("glfw", "egl", "osmesa")
_PROBE = """
import importlib, sys, mujoco
context = importlib.import_module("mujoco." + sys.argv[1]).GLContext(16, 16)
context.make_current()
mujoco.MjrContext(mujoco.MjModel.from_xml_string("<mujoco/>"), mujoco.mjtFontScale.mjFONTSCALE_100)
"""


def record_episode(act: Act, env_id: str, spec: Spec, path: Path, seed: int = 0) -> float:
    """Run one episode from `seed`, write its film to `path` in simulated time, and give its return.

    `act` gets a batch of one observation, (1, O).
    """
    check_film(path)
    if needs_opengl(env_id):
        choose_backend()
    else:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame draws into memory, and needs no window for it
    environment = make_environment(env_id, spec, render_mode="rgb_array")
    _follow(environment)
    low, high = action_limits(environment)
    simulated_rate = environment.metadata.get("render_fps") or 50
    stride = max(round(simulated_rate / FRAMES_PER_SECOND), 1)
    frames: list[Image.Image] = []
    total, step, done = 0.0, 0, False
    try:
        observation, _ = environment.reset(seed=seed)
        while not done:
            if step % stride == 0 and len(frames) < MAX_FRAMES:
                frames.append(_small(environment.render()))
            action = np.asarray(act(np.asarray(observation, dtype=np.float32)[None]))[0]
            observation, reward, terminated, truncated, _ = environment.step(np.clip(action, low, high))
            total += float(reward)
            step += 1
            done = terminated or truncated
            if not done:
                check_length(step, environment, env_id)
    finally:
        environment.close()
    _write_gif(frames, path, milliseconds=10 * round(100 * stride / simulated_rate))  # GIF counts in hundredths
    return total


def check_film(path: Path) -> None:
    """Refuse a name that a film cannot have, before anything is computed for it."""
    if path.suffix.lower() != ".gif":
        raise TetherError(f"{path}: episodes are recorded as GIF; give a name that ends in .gif")


def needs_opengl(env_id: str) -> bool:
    """Whether MuJoCo draws it. An id that is not registered yet belongs to Adroit, MuJoCo's too, or to MinAtar."""
    entry = gymnasium.registry[env_id].entry_point if env_id in gymnasium.registry else env_id
    return not str(entry).startswith(
        ("gymnasium.envs.classic_control", "gymnasium.envs.box2d", "gymnasium.envs.toy_text", "MinAtar", "minatar")
    )


def choose_backend() -> None:
    """Set MUJOCO_GL to a way of drawing that works here: what the user set, else the display, EGL or OSMesa.

    Each is tried in a process of its own, as a failing one can abort the process it is tried in.
    """
    given = os.environ.get("MUJOCO_GL")
    if given is not None:
        candidates = [given]
    elif sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        candidates = list(_BACKENDS)
    else:
        candidates = ["egl", "osmesa"]
    for backend in candidates:
        if backend in _BACKENDS and _draws(backend):
            os.environ["MUJOCO_GL"] = backend
            return
    raise TetherError(
        f"cannot draw: MuJoCo's OpenGL does not work here (tried {', '.join(candidates)}); "
        "install EGL (apt install libegl1) or OSMesa (apt install libosmesa6), or set MUJOCO_GL to glfw, egl or osmesa"
    )


def _draws(backend: str) -> bool:
    surroundings = {**os.environ, "MUJOCO_GL": backend}
    try:
        probe = subprocess.run([sys.executable, "-c", _PROBE, backend], env=surroundings, capture_output=True, timeout=60)
    except subprocess.TimeoutExpired:
        return False
    return probe.returncode == 0


def _follow(environment: gymnasium.Env) -> None:
    """Use the model's own tracking camera, if it has one: Gymnasium 1.4 does not, and runners leave the picture."""
    renderer = getattr(environment.unwrapped, "mujoco_renderer", None)
    if renderer is not None:
        renderer.camera_id = mujoco.mj_name2id(renderer.model, mujoco.mjtObj.mjOBJ_CAMERA, "track")  # -1: the free camera


def _small(frame: object) -> Image.Image:
    pixels = np.asarray(frame)
    if pixels.dtype.kind == "f":  # MinAtar's, from 0 to 1
        pixels = 255.0 * pixels
    image = Image.fromarray(pixels.astype(np.uint8))
    if max(image.size) < SIDE // 4:  # a board of a few squares is drawn larger
        times = SIDE // max(image.size)
        image = image.resize((times * image.width, times * image.height), Image.Resampling.NEAREST)
    image.thumbnail((SIDE, SIDE))
    return image.quantize(COLOURS)


def _write_gif(frames: list[Image.Image], path: Path, milliseconds: int) -> None:
    with replacing(path) as temporary:
        frames[0].save(temporary, format="GIF", save_all=True, append_images=frames[1:], duration=milliseconds, loop=0)
