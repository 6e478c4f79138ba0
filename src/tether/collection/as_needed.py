"""An online training that goes on only as far as a dataset needs it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import gymnasium
import numpy as np

from tether.collection.history import Evaluation, History
from tether.collection.online import OnlineSettings, online_policy, run_block
from tether.errors import TetherError
from tether.evaluation.rollout import Evaluator
from tether.policies import act
from tether.progress import progress
from tether.training.sources import Replay
from tether.types import Spec

EVALUATION_SEED = 10_000  # of the first episode's start; the same starts at every evaluation


@dataclass(frozen=True)
class OnlineTraining:
    settings: OnlineSettings
    online_steps: int  # the most it may take
    environment: gymnasium.Env
    spec: Spec
    history: History
    show_progress: bool

    def first_reaching(self, target: float, flag: str) -> Evaluation:
        """The earliest policy that reaches `target`. Without any, an error that says how far it came; `flag` is the target's."""
        self._go_on(target)
        found = self._first(target)
        if found is None:
            best = self.best()
            raise TetherError(
                f"no policy reached a return of {target:,.1f} ({flag}) in {self.online_steps:,} online steps; the best, at step "
                f"{best.step:,}, has {best.mean:,.1f}. The training is kept: a higher --online-steps goes on with it, "
                f"a lower {flag} takes what there is"
            )
        return found

    def best(self) -> Evaluation:
        """The best policy of the whole training."""
        self._go_on(np.inf)
        return max(self._evaluations(), key=lambda evaluation: evaluation.mean)

    def _evaluations(self) -> list[Evaluation]:
        """Those within `online_steps`: the history may be of a longer training."""
        return [evaluation for evaluation in self.history.evaluations if evaluation.step <= self.online_steps]

    def _first(self, target: float) -> Evaluation | None:
        return next((evaluation for evaluation in self._evaluations() if evaluation.mean >= target), None)

    def _go_on(self, target: float) -> None:
        """Train until an evaluation reaches `target` or the online steps are used up."""
        settings, history = self.settings, self.history
        total = self.online_steps - self.online_steps % settings.evaluate_every
        if history.step >= total or self._first(target) is not None:
            return
        replay = Replay(total, self.spec)
        if history.step:
            replay.append(history.replay(history.step).transitions)
        title = f"online {type(settings.agent).__name__} in {settings.env_id}"
        with (
            closing(Evaluator(settings.env_id, self.spec, settings.episodes, EVALUATION_SEED)) as evaluator,
            progress(title, total, start=history.step, enabled=self.show_progress) as bar,
        ):
            while history.step < total and self._first(target) is None:
                state, recording = run_block(settings, self.environment, history.state, replay, bar.update)
                policy = online_policy(settings, state, self.spec)
                results = evaluator(lambda observations, policy=policy: np.asarray(act(policy, observations)))  # type: ignore[misc]
                history.append(state, recording, results.returns)
                wanted = f" of {target:,.0f} wanted" if np.isfinite(target) else ""
                bar.update(history.step, evaluated_return=f"{np.mean(results.returns):,.0f}{wanted}")
