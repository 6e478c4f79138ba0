"""The pages say what the code does: every metric has its line, every link leads somewhere."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from tether.agents import AGENTS
from tether.bonuses import BONUSES, Anchor
from tether.data.columns import with_blank_columns
from tether.types import Batch, Problem, Spec, discrete_spec

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SPECS = {"continuous": Spec(2, (-1.0,), (1.0,)), "discrete": discrete_spec(2, 1)}
SPEC = SPECS["continuous"]


def rows(*lead: int) -> Batch:
    column = jnp.zeros(lead)
    return Batch(jnp.zeros((*lead, 2)), jnp.zeros((*lead, 1)), column, jnp.zeros((*lead, 2)), column)


class Nothing:
    """A penalty of zero that offers all that an agent may ask for."""

    spec = SPEC

    def __call__(self, observation, action, key):
        return jnp.zeros(observation.shape[0])

    def sample(self, observation, key):
        return jnp.zeros((observation.shape[0], 1))

    def log_probability(self, observation, action):
        return jnp.zeros(observation.shape[0])

    def anchor(self, observation):
        return Anchor(jnp.zeros((observation.shape[0], 1)), jnp.ones((observation.shape[0], 1)))


def documented() -> set[str]:
    return set(re.findall(r"^\| `(\w+/\w+)`", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", AGENTS)
def test_every_metric_of_an_agent_has_a_line(name: str):
    agent = AGENTS[name]()

    def metrics(key, kind):
        keys = jax.random.split(key)
        batches = with_blank_columns(rows(*agent.batch_shape), agent.traits.columns)
        return agent.update(agent.init(keys[0], Problem(SPECS[kind], rows(4))), batches, keys[1], Nothing())[1]

    for kind in agent.traits.actions:
        assert set(jax.eval_shape(partial(metrics, kind=kind), jax.random.key(0))) <= documented()


@pytest.mark.parametrize("name", BONUSES)
def test_every_metric_of_a_fit_has_a_line(name: str):
    bonus = BONUSES[name]()

    def metrics(key):
        keys = jax.random.split(key)
        return bonus.update(bonus.init(keys[0], Problem(SPEC, rows(4))), rows(*bonus.batch_shape), keys[1])[1]

    assert set(jax.eval_shape(metrics, jax.random.key(0))) <= documented()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_agent_and_bonus_has_a_page_and_a_row_in_the_readme():
    readme = (ROOT / "README.md").read_text()
    for name in (*AGENTS, *BONUSES):
        assert f"[`{name}`](docs/" in readme
    assert {path.stem for path in (ROOT / "docs" / "agents").glob("*.md")} == set(AGENTS)
    assert {path.stem for path in (ROOT / "docs" / "bonuses").glob("*.md")} == set(BONUSES)
