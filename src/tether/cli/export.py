"""`tether export`: a policy to ship, in one file that knows what it has seen, or as ONNX."""

from __future__ import annotations

from pathlib import Path


def export(
    run: Path,
    /,
    out: Path | None = None,
    onnx: Path | None = None,
    bonus: str | None = None,
    dataset: str | None = None,
    policy: str | None = None,
    without_familiarity: bool = False,
    opset: int | None = None,
    overwrite: bool = False,
) -> None:
    """Write a run's policy as one file that says how familiar an observation is, or as an ONNX model.

    Familiarity comes from a bonus: that of the run, or with --bonus one that is fitted for it (rnd-film takes a minute). A policy
    that has it already needs no data.

    An ONNX model has the actions and the familiarity as outputs, scaling inside, any number of rows. Before it is kept,
    onnxruntime and JAX are asked 10,000 observations and must agree to 1e-5. Needs pip install 'tether-rl[onnx]'.

    Examples:
        tether export runs/first --out policy.safetensors
        tether export runs/first --onnx policy.onnx
        tether export runs/cloned --bonus rnd-film --out policy.safetensors --onnx policy.onnx
        tether export policy.safetensors --bonus rnd-film --dataset mine.hdf5 --out policy-that-knows.safetensors

    Args:
        run: The run's folder, or a policy file.
        out: Write the policy file here.
        onnx: Write the ONNX model here.
        bonus: Fit this bonus for familiarity, with its default settings, instead of taking the run's.
        dataset: The data that the bonus is fitted to or was fitted to. Default: the run's.
        policy: One of the agent's policies, by its name in `tether evaluate`. Default: the run's own.
        without_familiarity: Export the policy alone, where it has no familiarity.
        opset: Of the ONNX model. Default: 18, and 26 with the bonus count-exact.
        overwrite: Replace the files if they are there.
    """
    import sys
    from dataclasses import replace

    from tether.errors import TetherError
    from tether.runtime.experience import blindness, spell

    if out is None and onnx is None:
        raise TetherError("nothing to write: give --out FILE.safetensors, --onnx FILE.onnx, or both")
    if without_familiarity and (bonus or dataset):
        raise TetherError("--without-familiarity leaves out what --bonus and --dataset are for; give one or the other")
    for path in (out, onnx):
        if path is not None and path.exists() and not overwrite:
            raise TetherError(f"{path} is there already; give --overwrite to replace it")
    if onnx is not None:
        from tether.export import model

        model.check_installed()
    from tether.export import finding

    if without_familiarity:
        found = finding.policy_alone(run, policy)
        reason = {"no_familiarity": "it was exported without"}
        found = replace(found, experience=None, about=found.about | reason)
    else:
        found = finding.find_policy(run, policy, bonus, dataset)
    warning = blindness(found.experience) if found.experience is not None else None
    if warning:
        print(f"warning: {warning}", file=sys.stderr)
    if out is not None:
        found.save(out)
        known = spell(found.experience) if found.experience is not None else "no familiarity"
        print(f"{out}: {out.stat().st_size / 1e6:.1f} MB, {known}")
    if onnx is not None:
        checked, used = model.export_checked(found, onnx, opset)
        familiar = "no familiarity" if checked.familiarity is None else f"familiarity within {checked.familiarity:.1e}"
        ties = f"; {checked.ties:,} left out, where two choices are equal to rounding" if checked.ties else ""
        print(
            f"{onnx}: {onnx.stat().st_size / 1e6:.1f} MB, opset {used}; onnxruntime against JAX on {checked.observations:,} "
            f"observations: actions within {checked.action:.1e} of their range, {familiar}{ties}"
        )
