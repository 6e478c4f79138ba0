"""How long an action takes, measured on something small: every runner, one and many, with familiarity and without."""

from __future__ import annotations

from tether.benchmark import acting
from tether.types import Spec


def test_every_runner_is_measured_for_one_and_many(tmp_path):
    sizes = {"predictor_sizes": (4, 4), "target_sizes": (4, 4), "embedding_size": 2}
    policy = acting.make_policy(Spec(3, (-1.0, -1.0), (1.0, 1.0)), (4,), **sizes)
    found = acting.measure(tmp_path, rounds=1, calls=2, policy=policy)
    asked = {(fact["runner"], fact["rows"], fact["familiarity"]) for fact in found}
    runners = ("JAX", "NumPy", "onnxruntime")
    assert asked == {(runner, rows, known) for runner in runners for rows in (1, 256) for known in (False, True)}
    assert all(0 < fact["microseconds_median"] <= fact["microseconds_p99"] for fact in found)
