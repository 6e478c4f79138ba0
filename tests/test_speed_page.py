"""The table of every agent's speed holds what its JSON says, and the baselines' page has the same steps a second."""

from __future__ import annotations

import statistics

import pytest
from pages import ROOT, tables_of

from tether.benchmark.speed import bonuses_to_measure
from tether.storage import read_json


def measured(core: str) -> dict[str, dict[str, float]]:
    facts = read_json(ROOT / f"benchmarks/results/2026-11-18-one-core-{core}-agents.json")["measurements"]
    return {fact["name"]: fact for fact in facts}


MEASURED, FASTER = measured("epyc"), measured("zen5")
(SPEEDS,) = [table for table in tables_of("docs/speed.md") if table[0][0] == "agent, bonus"]
(BASELINES,) = [table for table in tables_of("docs/baselines.md") if "pen-expert" in table[0]]
# Of lines of the baselines' page, what the benchmark calls them; of the others the two have the same name.
CALLED = {"bc, best tenth": "bc", "brac-p": "brac-p, density", "brac-v": "brac-v, density", "tethered": "tethered, density"}
CALLED |= {agent: f"{agent}, cvae" for agent in ("bcq", "bear", "spot")}


@pytest.mark.parametrize("line", SPEEDS[1:], ids=lambda line: line[0])
def test_a_line_is_what_was_measured(line: list[str]):
    fact = MEASURED[line[0]]
    steps, flop = fact["steps_per_busy_second"], fact["gflop_per_step"]
    assert line[1:4] == [f"{flop:.2g}", f"{steps:,.0f}", f"{flop * steps:.0f}"]
    assert line[4:6] == limit_and_share(fact)
    fact = FASTER[line[0]]
    assert line[6:] == [f"{fact['steps_per_busy_second']:,.0f}", *limit_and_share(fact)]


def limit_and_share(fact: dict[str, float]) -> list[str]:
    return [f"{fact['limit_gflop_per_busy_second']:.0f}", f"{fact['share_of_limit_busy']:.0%}"]


def test_every_agent_that_was_measured_has_a_line():
    assert {line[0] for line in SPEEDS[1:]} == set(MEASURED) == set(FASTER)


@pytest.mark.parametrize("line", BASELINES[1:], ids=lambda line: line[0])
def test_the_baselines_page_has_the_same_steps_a_second(line: list[str]):
    name = line[0].replace("`", "")
    assert line[-1] == f"{MEASURED[CALLED.get(name, name)]['steps_per_busy_second']:,.0f}"


def test_the_table_of_bonuses_is_what_was_measured():
    facts = read_json(ROOT / "benchmarks/results/2026-11-19-one-core-zen5-bonuses.json")["measurements"]
    rates = {fact["name"]: fact["steps_per_busy_second"] for fact in facts}
    (table,) = [table for table in tables_of("docs/speed.md") if table[0][0] == "bonus"]
    told = []
    for name, bonus in bonuses_to_measure().items():
        fit = ["", "", ""]
        if bonus.steps:
            rate = rates[f"fit of {name}"]
            fit = [f"{bonus.steps:,}", f"{rate:,.0f}", f"{bonus.steps / rate:,.0f}"]
        told.append([name, *fit, f"{rates[f'bonus of {name}, pairs']:,.0f}"])
    assert table[1:] == told


def test_the_table_beside_d3rlpy_is_what_was_measured():
    agents = read_json(ROOT / "benchmarks/results/2026-11-19-one-core-zen5-beside-d3rlpy.json")["agents"]
    (table,) = [table for table in tables_of("docs/speed.md") if "d3rlpy" in table[0] and table[0][0] == "agent"]
    assert [line[0] for line in table[1:]] == list(agents)
    for line in table[1:]:
        found = agents[line[0]]
        gflop, limit = found["gflop_per_step"], statistics.median(found["limit_gflop_per_busy_second"])
        ours, theirs = (found["steps_per_busy_second"][who] for who in ("tether", "d3rlpy"))
        mine, other = statistics.median(ours), statistics.median(theirs)
        assert line[1:5] == [f"{gflop:.2g}", f"{mine:,.0f}", f"{other:,.0f}", f"{limit:.0f}"]
        assert line[5:7] == [f"{rate * gflop / limit:.0%}" for rate in (mine, other)]
        low, middle, high = sorted(one / two for one, two in zip(ours, theirs, strict=True))[1:4]  # of five: the quartiles
        assert line[7:] == [f"{low:.2f}, {middle:.2f}, {high:.2f}", f"{limit / gflop / other:.1f}"]


def test_the_table_of_where_time_goes_is_what_was_measured():
    shares = read_json(ROOT / "benchmarks/results/2026-11-19-one-core-zen5-where-time-goes.json")["shares"]
    (table,) = [table for table in tables_of("docs/speed.md") if "products" in table[0]]
    told = [[agent, *(f"{share:.0%}" for share in each.values())] for agent, each in shares.items()]
    assert table == [["agent", *next(iter(shares.values()))], *told]
