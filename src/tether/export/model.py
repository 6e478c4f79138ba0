"""A policy as an ONNX model, and the check that onnxruntime gives what JAX gives."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tether.errors import TetherError
from tether.export.graph import BITS_OPSET, Graph, Value
from tether.policies import Policy as JaxPolicy
from tether.runtime.bonuses import first_not_below
from tether.runtime.experience import Experience
from tether.runtime.file import Policy, load_policy
from tether.runtime.layers import bounds_of
from tether.storage import replacing
from tether.types import spec_to_json

INPUT, ACTION, FAMILIARITY = "observation", "action", "familiarity"
CHECKED = 10_000  # observations that the model is asked at export
TOLERANCE = 1e-5
TIE = 1e-4  # two choices nearer than this, in units of what is compared, are as good as equal: rounding decides
IR_VERSION = 10  # of the file around the operators; what onnxruntime has read since 1.18


@dataclass(frozen=True)
class Checked:
    """How far the model is from JAX, over the observations it was asked."""

    observations: int
    action: float  # the largest difference, in shares of each action's range
    familiarity: float | None
    ties: int  # rows left out: two choices were all but equal


def check_installed() -> None:
    """Before anything is read or fitted."""
    _onnx()
    _onnxruntime()


def export_checked(policy: JaxPolicy, path: Path, opset: int | None = None) -> tuple[Checked, int]:
    """Write the model, in its place only once it gives what JAX gives."""
    with tempfile.TemporaryDirectory(prefix="tether-export-") as folder:
        file, trial = Path(folder) / "policy.safetensors", Path(folder) / "policy.onnx"
        policy.save(file)
        plain = load_policy(file)
        used = write_model(plain, trial, opset)
        checked = check_model(trial, policy, plain, sample_observations(policy))
        with replacing(path) as temporary:
            temporary.write_bytes(trial.read_bytes())
    return checked, used


def write_model(policy: Policy, path: Path, opset: int | None = None) -> int:
    """Write the model and give its opset. Without an experience it has no familiarity."""
    onnx = _onnx()
    model, used = build(policy, opset)
    try:
        onnx.checker.check_model(model)
    except Exception as error:  # of the checker's own kinds
        raise TetherError(f"the ONNX model is not sound in opset {used}: {error}") from error
    with replacing(path) as temporary:
        temporary.write_bytes(model.SerializeToString())
    return used


def build(policy: Policy, opset: int | None = None) -> tuple[Any, int]:
    """The model, with any number of rows, and the opset it is for."""
    onnx = _onnx()
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    graph, spec = Graph(), policy.spec
    observation = Value(graph, INPUT, (None, spec.observation_size), np.dtype(np.float32))
    actions = policy.actor(graph, observation)
    outputs = {ACTION: graph.argmax(actions, axis=-1) if spec.discrete else actions}
    if policy.experience is not None and policy.bonus is not None:
        novelty = policy.bonus(graph, observation, actions, None)
        outputs[FAMILIARITY] = interpolated(graph, policy.experience, novelty)
    used = _opset(graph, opset, onnx.defs.onnx_opset_version())
    nodes = [*graph.nodes, *(helper.make_node("Identity", [value.name], [name]) for name, value in outputs.items())]
    typed = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in outputs.items()}
    shapes = {ACTION: ["rows"] if spec.discrete else ["rows", spec.action_size], FAMILIARITY: ["rows"]}
    whole = helper.make_graph(
        nodes,
        "tether_policy",
        [helper.make_tensor_value_info(INPUT, onnx.TensorProto.FLOAT, ["rows", spec.observation_size])],
        [helper.make_tensor_value_info(name, typed[name], shapes[name]) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in graph.constants.values()],
    )
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", used)], producer_name="tether", ir_version=IR_VERSION)
    helper.set_model_props(model, _properties(policy))
    return model, used


def interpolated(graph: Graph, experience: Experience, novelty: Value) -> Value:
    """`Experience.familiarity`: np.interp(novelty, values, shares), and what is no number is beyond all values."""
    novelty = graph.where(novelty == novelty, novelty, np.float32(np.inf))
    values, shares = experience.values, experience.shares
    last = len(values) - 1
    above = first_not_below(graph, values, novelty)
    right = graph.minimum(graph.maximum(above, np.int64(1)), np.int64(last))
    left = right - np.int64(1)
    low, high = graph.take(values, left), graph.take(values, right)
    share = graph.maximum(graph.minimum((novelty - low) / (high - low), np.float32(1.0)), np.float32(0.0))
    start = graph.take(shares, left)
    return start + (graph.take(shares, right) - start) * share


def check_model(path: Path, policy: JaxPolicy, plain: Policy, observations: np.ndarray) -> Checked:
    """Ask onnxruntime and JAX the same, and refuse a model that is farther than the tolerance from JAX."""
    session = open_session(path)
    found: dict[str, Any] = dict(
        zip([output.name for output in session.get_outputs()], session.run(None, {INPUT: observations}), strict=True)
    )
    expected = policy.rows_to_actions(observations)
    decided = ~near_ties(plain, observations)
    spec = policy.spec
    actions = np.eye(spec.action_size, dtype=np.float32)[found[ACTION]] if spec.discrete else found[ACTION]
    low, high = bounds_of(spec)
    span = high - low
    differences = (np.abs(actions - expected) / span)[decided]
    worst = float(differences.max(initial=0.0))
    familiar, beyond = None, 0.0
    if policy.experience is not None:
        known, novelty = policy.experience, policy.novelty(observations, expected).astype(np.float64)
        familiar = float(np.abs(found[FAMILIARITY] - known.familiarity(novelty))[decided].max(initial=0.0))
        # A last digit of the bonus may be more than one of familiarity, where many held-out pairs have nearly the same bonus.
        digit = TOLERANCE * np.maximum(np.abs(novelty), float(np.median(np.abs(known.values))))
        low, high = known.familiarity(novelty + digit), known.familiarity(novelty - digit)
        beyond = float(np.maximum(low - found[FAMILIARITY], found[FAMILIARITY] - high)[decided].max(initial=0.0))
    result = Checked(len(observations), worst, familiar, int((~decided).sum()))
    if result.ties > len(observations) // 20:
        raise TetherError(
            f"{result.ties:,} of {len(observations):,} observations leave the choice to rounding; nothing to compare"
        )
    if max(worst, beyond) > TOLERANCE or not np.isfinite(differences).all():
        raise TetherError(
            f"the ONNX model differs from JAX by {worst:.1e} in actions and {familiar or 0.0:.1e} in familiarity, more than "
            f"{TOLERANCE:g}; it was not kept"
        )
    return result


def near_ties(plain: Policy, observations: np.ndarray) -> np.ndarray:
    """Rows in which rounding decides between two choices, or into which bucket of a count a pair falls: `(B,)`."""
    undecided = np.zeros(len(observations), bool)
    values = getattr(plain.actor, "values", None)
    if values is not None:
        compared = np.sort(values(np, observations), axis=-1)
        if compared.shape[1] > 1:
            unit = np.maximum(np.abs(compared).max(axis=1), 1e-12)
            undecided |= (compared[:, -1] - compared[:, -2]) / unit < TIE
    edge = getattr(plain.bonus, "distance_to_edge", None)
    if edge is not None:
        undecided |= edge(observations, plain.rows_to_actions(observations)) < TIE
    return undecided


def sample_observations(policy: JaxPolicy, number: int = CHECKED) -> np.ndarray:
    """To ask a model: recorded observations with noise, and some far away; where nothing was recorded, normal numbers."""
    random = np.random.default_rng(0)
    size = policy.spec.observation_size
    noise = random.normal(size=(number, size)).astype(np.float32)
    if policy.experience is None:
        return noise
    known = policy.experience.observation
    chosen, spread = known[random.integers(len(known), size=number)], known.std(axis=0)
    far = np.where(np.arange(number) % 4 == 0, 1.0, np.where(np.arange(number) % 4 == 1, 0.1, 0.0))[:, None]
    return (chosen + far * spread * noise).astype(np.float32)


def open_session(path: Path, threads: int = 0) -> Any:
    """onnxruntime's, on the processor; 0 threads: as many as it likes."""
    onnxruntime = _onnxruntime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of onnxruntime's own kinds
        raise TetherError(f"onnxruntime cannot run {path}: {' '.join(str(error).split())}") from error


def _opset(graph: Graph, given: int | None, newest: int) -> int:
    used = given or graph.opset
    if used > newest:
        raise TetherError(f"--opset is {used}; the onnx package that is installed knows those up to {newest}")
    if used < graph.opset:
        why = "count-exact needs BitCast" if graph.opset == BITS_OPSET else "it has the operators of this model"
        raise TetherError(f"--opset is {used}; at least {graph.opset} is needed: {why}")
    return used


def _properties(policy: Policy) -> Mapping[str, str]:
    """What a user of the model wants to know, as text."""
    found = {"tether": "policy", "spec": json.dumps(spec_to_json(policy.spec)), "about": json.dumps(policy.about)}
    if policy.experience is not None:
        found["familiarity"] = policy.experience.metadata()
        found |= {f"recorded_{name}": json.dumps(getattr(policy.experience, name).tolist()) for name in ("low", "high")}
    return found


def _onnx() -> Any:
    try:
        import onnx
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise TetherError("onnx is not installed; pip install 'tether-rl[onnx]'") from error
    return onnx


def _onnxruntime() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise TetherError("onnxruntime is not installed; pip install 'tether-rl[onnx]'") from error
    return onnxruntime
