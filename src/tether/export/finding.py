"""The policy to ship: that of a run or a file, with what it has seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tether.bonuses import BONUSES, NO_BONUS, Bonus
from tether.data import Dataset, locate
from tether.data.provenance import check_columns, imported_columns
from tether.errors import TetherError, did_you_mean
from tether.policies import Policy, load_policy
from tether.progress import progress
from tether.runs import checkpoint
from tether.settings import choose
from tether.training.familiarity import experience_of
from tether.training.fit import FitReport, FittedBonus, cache_folder, fit_bonus, steps_done
from tether.training.preparing import open_dataset
from tether.types import Spec, spell_actions, spell_observations

Say = Callable[[str], None]


def find_policy(
    source: Path, policy: str | None, bonus: str | None, dataset: str | None, say: Say = print, show: bool = True
) -> Policy:
    """The policy with its experience: its own, or by the run's bonus, or by `bonus`, which is fitted to `dataset` for it."""
    found = policy_alone(source, policy)
    if found.experience is not None and bonus is None and dataset is None:
        return found
    if bonus is not None:
        choose(BONUSES, bonus, "bonus")
        if bonus == NO_BONUS:
            raise TetherError("the bonus none is the same everywhere; choose one that tells pairs apart, such as rnd-film")
    data = _data(source, found, dataset, show)
    fitted = _own(source, data) if bonus is None else _fit(choose(BONUSES, bonus, "bonus")(), data, say, show)
    try:
        experience = experience_of(found, fitted, data)
    except TetherError as error:
        raise TetherError(f"no familiarity: {error}. Give --bonus NAME to fit another, or --without-familiarity") from error
    return replace(
        found,
        experience=experience,
        about={name: value for name, value in found.about.items() if name != "no_familiarity"},
    )


def policy_alone(source: Path, name: str | None) -> Policy:
    """Of a file, of a finished run, or made from the checkpoint of a run."""
    if not source.exists():
        raise TetherError(f"there is no run folder or policy file {source}")
    if source.is_file():
        if name is not None:
            raise TetherError(f"{source} holds one policy; --policy chooses among those of a run folder")
        return load_policy(source)
    if name is None and (source / "policy.safetensors").exists():
        return load_policy(source)
    state, bonus, step, progress = checkpoint.read_agent(source)
    policies = progress.config.agent.policies(state, bonus)
    name = name or progress.config.policy
    if name not in policies:
        raise TetherError(f"{source} has no policy {name}{did_you_mean(name, policies)}")
    about: dict[str, Any] = {"dataset": Path(progress.config.dataset).stem, "dataset_sha256": progress.dataset_sha256}
    if (source / "policy.safetensors").exists():  # what only the data knew: names of columns, units
        about = load_policy(source).about
    about |= {"env_id": progress.env_id, "step": step, "policy": name}
    return Policy(policies[name], progress.spec, about)


def _data(source: Path, policy: Policy, given: str | None, show: bool) -> Dataset:
    if given is None and source.is_file():
        reason = policy.about.get("no_familiarity", "it has no bonus with it")
        raise TetherError(
            f"{source} cannot say how familiar an observation is: {reason}. Give --bonus rnd-film and --dataset DATA to fit one, "
            "or --without-familiarity"
        )
    name = given or checkpoint.read_agent(source)[3].config.dataset
    try:
        data = open_dataset(locate(name), show=show)
    except TetherError as error:
        if given is not None:
            raise
        raise TetherError(f"{error}; {source} learnt from it, so give where it is: --dataset DATA") from error
    if _task(data.spec) != _task(policy.spec):
        raise TetherError(
            f"{data.name} is of another task: it has {_spelt(data.spec)}, and the policy {_spelt(policy.spec)}; give the data "
            "that the policy learnt from, or newer data of the same task"
        )
    check_columns(data.name, imported_columns(data.provenance), str(source), policy.about.get("columns"))
    return replace(data, spec=policy.spec)


def _task(spec: Spec) -> tuple[object, ...]:
    return spec.observation_size, spec.action_size, spec.discrete, spec.observation_shape


def _spelt(spec: Spec) -> str:
    return f"{spell_observations(spec)} -> {spell_actions(spec)}"


def _own(source: Path, data: Dataset) -> FittedBonus:
    """The bonus that the run was trained with. It knows which episodes were held out of its fit, of the same data only."""
    if source.is_file():
        raise TetherError(f"{source} has no bonus to start from; give --bonus NAME (rnd-film sees most)")
    _, frozen, _, progress = checkpoint.read_agent(source)
    if isinstance(frozen.bonus, BONUSES[NO_BONUS]):
        raise TetherError(
            f"{source} was trained without a bonus, so nothing says how familiar an observation is; give --bonus rnd-film to fit "
            "one, or --without-familiarity"
        )
    if data.sha256 != progress.dataset_sha256:
        raise TetherError(
            f"{data.name} is not what {source} learnt from (sha256 {data.sha256[:12]}… and {progress.dataset_sha256[:12]}…), so "
            "it is not known which of its episodes the run's bonus has seen; give that data, or --bonus NAME to fit one to this"
        )
    return FittedBonus(frozen.bonus, frozen.state, frozen.spec, FitReport(frozen.bonus.steps, 0.0))


def _fit(bonus: Bonus, data: Dataset, say: Say, show: bool) -> FittedBonus:
    start = steps_done(bonus, data, cache_folder())
    with progress("fitting the bonus", max(bonus.steps, 1), start=start, enabled=show and bonus.steps > 0) as bar:
        fitted = fit_bonus(bonus, data, cache_folder(), lambda step, _: bar.update(step))
    if fitted.report.looks_blind:
        say("warning: the bonus all but fails to tell recorded actions from others; compare bonuses with `tether bonus`")
    return fitted
