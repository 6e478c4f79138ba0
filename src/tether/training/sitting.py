"""A run at work in its folder, from its last checkpoint or from nothing: what is done with every epoch, and at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tether import storage
from tether.bonuses import NoBonus
from tether.evaluation.rollout import Evaluator
from tether.progress import Bar
from tether.runs import checkpoint
from tether.runs.metrics import MetricsLog, write_records
from tether.runs.result import make_result
from tether.runtime.experience import blindness
from tether.training.attached import Checkpoints, Evaluations, Logging
from tether.training.divergence import ImpossibleValues, check_finite
from tether.training.familiarity import with_experience
from tether.training.interrupt import StopRequest
from tether.training.lesson import AnyLesson
from tether.training.loop import Epoch
from tether.training.preparing import Beginning, Materials, Say, warn


@dataclass(frozen=True)
class Sitting:
    """One run, until it is done or interrupted. Of every epoch it first takes what must not be lost, then evaluates."""

    materials: Materials
    lesson: AnyLesson
    log: MetricsLog
    bar: Bar
    checkpoints: Checkpoints
    evaluations: Evaluations | None
    impossible: ImpossibleValues | None  # None: rewards may be others than the data's
    start: Start
    say: Say

    def take(self, epoch: Epoch) -> None:
        """Log it, and save it where that is due; `Diverged` where its numbers are none."""
        m = self.materials
        limit, has_bonus = m.config.training.value_limit, not isinstance(m.config.bonus, NoBonus)
        check_finite(epoch, m.config.agent, limit, m.folder.name, self.checkpoints.saved, has_bonus)
        if self.impossible is not None:
            warn(self.impossible(epoch), self.say)
        Logging(self.log, self.bar)(epoch)
        self.checkpoints(epoch)

    def evaluate(self, epoch: Epoch) -> None:
        """Where that is due and possible."""
        if self.evaluations is not None:
            self.evaluations(epoch)

    def finish(self, epoch: Epoch, rate: float | None) -> dict[str, Any]:
        """The policy and the result; `rate` is in steps a second."""
        from tether.report.curves import draw_curves
        from tether.runs.reading import read_run

        m, lesson, seconds = self.materials, self.lesson, self.checkpoints.seconds()
        policy = with_experience(lesson.policy(epoch.state, m.config.policy, epoch.step, m.env_id), m.bonus, m.dataset)
        policy.save(m.folder / "policy.safetensors")
        if policy.experience is None:
            reason = policy.about["no_familiarity"]
            self.say(f"the policy cannot say how familiar an observation is: {reason}; see tether export --help")
        elif blindness(policy.experience) is not None:
            self.say(f"note: {blindness(policy.experience)}")
        result = make_result(m.config, m.dataset, m.reward_scale, m.bonus.report.summary(), self.log, m.env_id)
        draw_curves([replace(read_run(m.folder, m.env_id), result=result)], m.folder / "curves.png")
        result |= {"wall_time_seconds": seconds, "updates_per_second": rate, "resumed_from_step": self.start.resumed}
        result |= lesson.account()
        if self.start.known.together:
            result["together"] = [*self.start.known.together]
        storage.write_json(m.folder / "result.json", result)
        return result


class Start(NamedTuple):
    """Where a run goes on from."""

    epoch: Epoch
    known: checkpoint.Progress
    resumed: int | None  # the step of its checkpoint; None where there is none


def start_of(m: Materials, fresh: Any, say: Say) -> Start:
    """From its checkpoint, else from its beginning, else from the `fresh` state."""
    beginning = m.beginning or Beginning(m.reward_scale)
    known = checkpoint.Progress(m.config, m.dataset.sha256, m.dataset.spec, m.env_id)
    state, first_step, resumed = fresh, beginning.step, None
    template = checkpoint.RunState(fresh, m.bonus.state, checkpoint.STEP)
    restored = checkpoint.load(m.folder, template, m.config, m.dataset.sha256)
    if restored is not None:
        (state, _, step), known = restored
        first_step = resumed = int(step)
        say(f"going on from step {first_step:,}")
    elif beginning.state is not None:
        state = beginning.state
        write_records(m.folder, beginning.records)
    return Start(Epoch(first_step, state, {}), known, resumed)


@contextmanager
def sitting(
    m: Materials,
    lesson: AnyLesson,
    start: Start,
    evaluator: Evaluator | None,
    stop: StopRequest,
    began: float,
    bar: Bar,
    say: Say,
    seeds: Sequence[int] = (),
) -> Iterator[Sitting]:
    """The run at work. `began` is the time from which on its seconds count, and `stop` asks it to save its state.

    `seeds` are those of all runs of one program, where it is not alone.
    """
    training = m.config.training
    if start.epoch.step < training.steps:
        start = start._replace(known=start.known.going_on(start.epoch.step, seeds or (m.config.seed,)))
    with closing(MetricsLog(m.folder, start.epoch.step, m.env_id, m.sinks)) as log:
        log.fit(m.bonus.report.history)
        checkpoints = Checkpoints(m.folder, m.bonus.state, start.known, training, stop, began)
        checkpoints.saved = start.resumed
        evaluations = None
        if evaluator is not None:
            evaluations = Evaluations(lesson, evaluator, log, bar, training.evaluate_every, m.reward_scale, m.config.policy)
        in_an_environment = m.beginning is not None and m.beginning.lesson is not None
        impossible = None
        if not in_an_environment:
            impossible = ImpossibleValues(m.dataset.transitions, m.config.agent, training.reward_penalty)
        yield Sitting(m, lesson, log, bar, checkpoints, evaluations, impossible, start, say)
