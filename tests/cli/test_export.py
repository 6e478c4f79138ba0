"""`tether export` and `tether familiarity`, as a user meets them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from tether.cli import main
from tether.policies import load_policy
from tether.runtime import load_policy as load_without_jax

BEFORE = Path(__file__).parents[1] / "runs" / "written_before"


def test_a_finished_run_is_one_file_and_a_model(finished_run, tmp_path, capsys):
    file, model = tmp_path / "policy.safetensors", tmp_path / "policy.onnx"
    assert main(["export", str(finished_run), "--out", str(file), "--onnx", str(model)]) == 0
    told = capsys.readouterr().out
    assert "familiarity by cvae, against" in told
    assert "onnxruntime against JAX on 10,000 observations" in told
    assert file.read_bytes() == (finished_run / "policy.safetensors").read_bytes()
    policy = load_without_jax(file)
    observation = policy.experience.observation[0]
    np.testing.assert_allclose(policy(observation), load_policy(finished_run)(observation), atol=1e-5)
    assert main(["export", str(finished_run), "--out", str(file)]) == 2
    assert "is there already; give --overwrite to replace it" in capsys.readouterr().err
    assert main(["export", str(finished_run), "--out", str(file), "--without-familiarity", "--overwrite"]) == 0
    assert load_without_jax(file).experience is None


def test_an_old_run_gets_its_familiarity_from_its_own_bonus_and_data(tmp_path, capsys):
    file = tmp_path / "policy.safetensors"
    run, data = str(BEFORE / "td3-cvae"), str(BEFORE / "pendulum.hdf5")
    assert main(["export", run, "--dataset", data, "--out", str(file)]) == 0
    assert "familiarity by cvae" in capsys.readouterr().out
    old, new = load_policy(run), load_policy(file)
    rows = np.linspace(-1, 1, 27, dtype=np.float32).reshape(3, 9)
    np.testing.assert_array_equal(old(rows), new(rows))
    assert new.experience.bonus["latent"] == "mean"
    # The same run by its checkpoint, another of its policies.
    assert main(["export", run, "--dataset", data, "--policy", "online", "--out", str(tmp_path / "online.safetensors")]) == 0
    assert load_policy(tmp_path / "online.safetensors").about["policy"] == "online"


def test_exact_counts_where_nothing_repeats_are_no_measure(tmp_path, capsys):
    file = tmp_path / "policy.safetensors"
    run, data = BEFORE / "dqn-count-exact", BEFORE / "cartpole.hdf5"
    assert main(["export", str(run), "--dataset", str(data), "--out", str(file)]) == 2
    told = capsys.readouterr().err
    assert "no familiarity: the bonus has one value, 100, on all held-out pairs" in told
    assert "Give --bonus NAME to fit another, or --without-familiarity" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{bc}", "--out", "{new}", "--dataset", "{data}"], "was trained without a bonus, so nothing says how familiar"),
        (["{bc}", "--out", "{new}"], "learnt from it, so give where it is: --dataset DATA"),
        (["{bc}", "--out", "{new}", "--bonus", "rdn", "--dataset", "{data}"], "no bonus 'rdn'; did you mean rnd"),
        (["{bc}", "--out", "{new}", "--bonus", "none", "--dataset", "{data}"], "the bonus none is the same everywhere"),
        (
            ["{bc}", "--out", "{new}", "--bonus", "count", "--dataset", "{cartpole}"],
            "cartpole is of another task: it has 4 numbers",
        ),
        (["{td3}", "--out", "{new}", "--dataset", "{other}"], "is not what"),
        (["{td3}", "--out", "{new}", "--policy", "tarket"], "did you mean target"),
        (["{file}", "--out", "{new}"], "Give --bonus rnd-film and --dataset DATA to fit one"),
        (["{file}", "--out", "{new}", "--dataset", "{data}"], "has no bonus to start from; give --bonus NAME"),
        (["{file}", "--out", "{new}", "--policy", "online"], "holds one policy"),
        (["{file}", "--out", "{new}", "--bonus", "rnd", "--without-familiarity"], "give one or the other"),
        (["{bc}"], "nothing to write"),
        (["{gone}", "--out", "{new}"], "there is no run folder or policy file"),
        (["{data}", "--out", "{new}"], "is cut short, damaged or not a safetensors file"),
        (["{file}", "--onnx", "{model}", "--without-familiarity", "--opset", "9"], "--opset is 9; at least 18 is needed"),
    ],
)
def test_a_mistake_is_one_message_and_nothing_is_written(arguments, message, tmp_path, capsys):
    shutil.copy(BEFORE / "bc" / "policy.safetensors", tmp_path / "file.safetensors")
    shutil.copy(BEFORE / "pendulum.hdf5", tmp_path / "file.hdf5")
    with h5py.File(tmp_path / "file.hdf5", "a") as file:
        file["rewards"][0] += 1.0
    places = {
        "bc": BEFORE / "bc",
        "td3": BEFORE / "td3-cvae",
        "data": BEFORE / "pendulum.hdf5",
        "cartpole": BEFORE / "cartpole.hdf5",
        "other": tmp_path / "file.hdf5",
        "file": tmp_path / "file.safetensors",
        "new": tmp_path / "new.safetensors",
        "model": tmp_path / "new.onnx",
        "gone": tmp_path / "gone",
    }
    assert main(["export", *(argument.format(**places) for argument in arguments)]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert message in told
    assert {path.name for path in tmp_path.iterdir()} == {"file.safetensors", "file.hdf5"}


def test_familiarity_is_measured_and_drawn(finished_run, pendulum_file, tmp_path, capsys):
    out = tmp_path / "familiarity.png"
    assert main(["familiarity", str(finished_run), "--dataset", str(pendulum_file), "--out", str(out), "--most", "100"]) == 0
    found = json.loads(out.with_suffix(".json").read_text())["unbroken"]
    assert found["pairs"] == 100
    assert [entry["shift"] for entry in found["shifted"]][-1] == 4.0
    assert out.read_bytes().startswith(b"\x89PNG")
    assert "share with a familiarity of at most 0.05" in " ".join(capsys.readouterr().out.split())
    assert main(["familiarity", str(finished_run), "--dataset", str(BEFORE / "cartpole.hdf5"), "--out", str(out)]) == 2
    assert "it is of another task" in capsys.readouterr().err
