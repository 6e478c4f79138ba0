"""Plans: what they stand for, counted by hand, and what is refused, with the file, the key and what would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from tether.config import settings_of
from tether.environments.tasks import task_of_dataset
from tether.errors import TetherError
from tether.sweep.expansion import Data, PlannedRun, expand, find_data, twins
from tether.sweep.plan import LEAST, Plan, read_plan

PLANS = Path(__file__).resolve().parents[2] / "plans"
EMBEDDED = "halfcheetah-mixed-tether"


def write(folder: Path, text: str, preset: str = "paper") -> Path:
    """A plan of one dataset and the paper's settings, unless it says otherwise."""
    path = folder / "mine.toml"
    text = text if "datasets" in text else f'datasets = ["{EMBEDDED}"]\n{text}'
    path.write_text(text if "preset" in text or not preset else f'preset = "{preset}"\n{text}')
    return path


def runs_of(path: Path) -> tuple[Plan, list[PlannedRun]]:
    plan = read_plan(path)
    return plan, expand(plan, find_data(plan))


def setting(run: PlannedRun, name: str) -> object:
    return {name: value for group in settings_of(run.config).values() for name, value in group.items()}[name]


# What a plan stands for


def test_a_plan_of_one_line_is_one_run_with_all_defaults(tmp_path: Path):
    plan, (run,) = runs_of(write(tmp_path, "", preset=""))
    assert (plan.name, plan.out) == ("mine", Path("runs/mine"))
    assert run.name == f"{EMBEDDED}/tethered-density/s0"  # as `tether train` without a name
    assert run.folder == Path(f"runs/mine/{EMBEDDED}/tethered-density/s0")
    assert (run.config.training.steps, run.config.seed) == (60_000, 0)
    _, (run,) = runs_of(write(tmp_path, "", preset="paper"))
    assert run.config.agent.bonus_weight_actor == 5.0  # the paper's for locomotion: the task is known by the data


def test_with_a_bonus_that_the_usual_agent_does_not_take_it_is_the_paper_s_agent(tmp_path: Path):
    text = 'bonuses = ["cvae", "density"]\n[variants.a]\n[variants.b]\nbonus = "rnd-film"\n[variants.c]\npreset = "paper"\n'
    _, runs = runs_of(write(tmp_path, text, preset=""))
    assert [run.method for run in runs if run.variant == "a"] == ["td3-cvae", "tethered-density"]
    assert [run.method for run in runs if run.variant == "b"] == ["td3-rnd-film"]
    assert [run.method for run in runs if run.variant == "c"] == ["td3-cvae", "td3-density"]


def test_each_seed_can_have_a_fit_of_its_own(tmp_path: Path):
    text = 'seeds = [3, 5]\n{}[variants.a]\n[variants.b]\nbonus.seed = 1\n[variants.c]\nbonus = "none"\n'
    _, runs = runs_of(write(tmp_path, text.format('fits = "own"\n')))
    with_fit = [run for run in runs if run.bonus != "none"]
    assert [(run.config.seed, run.variant, run.config.bonus.seed) for run in with_fit] == [
        (3, "a", 3),
        (3, "b", 1),  # what is said of a variant goes before
        (5, "a", 5),
        (5, "b", 1),
    ]
    assert len({run.fit for run in with_fit}) == 3
    _, runs = runs_of(write(tmp_path, text.format("")))
    assert {run.config.bonus.seed for run in runs if run.variant == "a"} == {0}
    with pytest.raises(TetherError, match="fits is 'each'; it takes shared or own"):
        read_plan(write(tmp_path, 'fits = "each"\n'))


def test_a_grid_is_every_combination_on_every_seed(tmp_path: Path):
    _, runs = runs_of(
        write(
            tmp_path,
            "seeds = [3, 5]\nsteps = 2000\n[grid]\nagent.bonus_weight_actor = [0.1, 5]\nagent.discount = [0.9, 0.99, 0]\n",
        )
    )
    assert len(runs) == 2 * 2 * 3
    assert [run.name for run in runs[:2]] == [
        f"{EMBEDDED}/td3-cvae/bonus_weight_actor=0.1,discount=0.9/s3",
        f"{EMBEDDED}/td3-cvae/bonus_weight_actor=0.1,discount=0.99/s3",
    ]
    assert [run.config.seed for run in runs] == [3] * 6 + [5] * 6  # by seed first
    points = {(setting(run, "agent.bonus_weight_actor"), setting(run, "agent.discount")) for run in runs}
    assert points == {(weight, discount) for weight in (0.1, 5.0) for discount in (0.9, 0.99, 0.0)}
    assert {run.config.training.steps for run in runs} == {2000}


def test_settings_of_the_same_last_name_keep_their_whole_name_in_folders(tmp_path: Path):
    _, runs = runs_of(
        write(tmp_path, "[grid]\nagent.batch_size = [32]\nbonus.batch_size = [64]\nagent.hidden_sizes = [[16, 17]]\n")
    )
    assert [run.variant for run in runs] == ["agent.batch_size=32,hidden_sizes=16x17,bonus.batch_size=64"]


def test_draws_are_within_their_limits_and_the_same_for_the_same_seed(tmp_path: Path):
    text = "[random]\ndraws = 50\nseed = {}\nlog_uniform.agent.bonus_weight_actor = [0.01, 100]\n"
    text += "uniform.agent.discount = [0.9, 0.99]\nchoice.agent.batch_size = [32, 64]\n"
    _, runs = runs_of(write(tmp_path, text.format(7)))
    again = runs_of(write(tmp_path, text.format(7)))[1]
    other = runs_of(write(tmp_path, text.format(8)))[1]
    assert [run.config for run in runs] == [run.config for run in again]
    assert [run.config for run in runs] != [run.config for run in other]
    assert [run.variant for run in runs] == [f"draw{number}" for number in range(50)]
    weights = [float(str(setting(run, "agent.bonus_weight_actor"))) for run in runs]
    assert all(0.01 <= weight <= 100 for weight in weights)
    assert 15 <= sum(weight < 1 for weight in weights) <= 35  # half of the decades lie below 1, and 1 % of a uniform draw would
    assert {setting(run, "agent.batch_size") for run in runs} == {32, 64}


def test_a_draw_more_leaves_the_runs_of_the_others_as_they_are(tmp_path: Path):
    text = "[random]\ndraws = {}\nuniform.agent.discount = [0.9, 0.99]\n"
    ten, eleven = (runs_of(write(tmp_path, text.format(draws)))[1] for draws in (10, 11))
    assert [run.variant for run in eleven] == [*(f"draw{number}" for number in range(10)), "draw10"]
    before = {run.name: run.config for run in ten}
    assert {run.name: run.config for run in eleven if run.name in before} == before


def test_named_variants_may_have_an_agent_and_a_bonus_of_their_own(tmp_path: Path):
    text = 'seeds = [0]\nsettings.bonus.steps = 5\n[variants.cloning]\nagent = "bc"\n[variants.alone]\nbonus = "none"\n'
    _, runs = runs_of(write(tmp_path, text + "[variants.usual]\nagent.discount = 0.9\n"))
    assert [run.name.split("/", 1)[1] for run in runs] == ["bc-none/cloning/s0", "td3-none/alone/s0", "td3-cvae/usual/s0"]
    assert [run.config.bonus.steps for run in runs] == [0, 0, 5]  # what is said of a bonus is not said to those without
    assert setting(runs[2], "agent.discount") == 0.9


def test_runs_that_differ_in_the_agent_or_its_seed_share_a_fit(tmp_path: Path):
    text = 'seeds = [0, 1]\n[variants.a]\nagent.discount = 0.9\n[variants.b]\nbonus.seed = 1\n[variants.c]\nbonus = "none"\n'
    _, runs = runs_of(write(tmp_path, text))
    fits = Counter(run.fit for run in runs)
    assert sorted(fits.values()) == [2, 2, 2]
    assert fits[None] == 2


@pytest.fixture(scope="module")
def shipped() -> Callable[[str], tuple[Plan, list[PlannedRun]]]:
    """The runs of a plan that ships; a large one is expanded once."""
    return cache(lambda name: runs_of(PLANS / f"{name}.toml"))


@pytest.mark.parametrize(("plan", "number", "fits", "final"), [("quick", 8, 1, 9), ("paper-table", 24 * 25 * 3, 24, 24 * 10)])
def test_the_plans_that_ship_stand_for_the_right_number_of_runs(shipped, plan: str, number: int, fits: int, final: int):
    from tether.sweep.choosing import number_of_final_runs

    found, runs = shipped(plan)
    assert len({run.folder for run in runs}) == number
    assert len({run.fit for run in runs} - {None}) == fits
    assert number_of_final_runs(found, runs) == final


def test_the_papers_plan_has_the_papers_tasks_grid_and_length(shipped):
    _, runs = shipped("paper-table")
    assert Counter(run.data.group for run in runs) == {"locomotion": 12 * 75, "manipulation": 12 * 75}
    points = {(setting(run, "agent.bonus_weight_actor"), setting(run, "agent.bonus_weight_critic")) for run in runs}
    assert points == {(actor, critic) for actor in (0.1, 0.5, 1, 5, 10) for critic in (0.1, 0.5, 1, 5, 10)}
    assert {(run.config.training.steps, run.config.bonus.steps) for run in runs} == {(500_000, 50_000)}


def proof(name: str) -> list[PlannedRun]:
    """The runs of a plan whose data is not here."""
    plan = read_plan(PLANS / name)
    found = [(source, Path(source).stem) for source in plan.datasets]
    return expand(plan, [Data(source, stem, task_of_dataset(stem).env_ids[0]) for source, stem in found])


def test_the_proof_has_its_rows_seeds_and_lengths():
    runs = proof("proof.toml")
    levels = ("medium", "medium-replay", "medium-expert")
    every = {f"{task}-{level}" for task in ("hopper", "halfcheetah", "walker2d") for level in levels} | {
        "pen-expert",
        "door-expert",
    }
    assert {run.data.name for run in runs} == every
    counts = Counter(run.variant for run in runs)
    ours = ("tethered", "five-unbounded", "td3-bc-our-critics", "td3-bc-our-critics-bounded")
    everywhere = (*ours, "cloning", "best-tenth", "cloning-scaled", "td3-bc")
    assert [counts.pop(name) for name in everywhere] == [11 * 3] * 8
    assert [counts.pop(name) for name in ("iql", "paper")] == [4 * 3] * 2
    rebrac = {run.data.name: run.config.agent for run in runs if run.agent == "rebrac"}
    weights = {name: (agent.cloning_weight_actor, agent.cloning_weight_critic) for name, agent in rebrac.items()}
    assert weights == {  # of tinkoff-ai/CORL, configs/offline/rebrac
        "hopper-medium": (0.01, 0.01),
        "halfcheetah-medium-replay": (0.01, 0.001),
        "hopper-medium-expert": (0.1, 0.01),
        "pen-expert": (0.01, 0.01),
    }
    for name, logs in (("rebrac", 2), ("rebrac-on-halfcheetah-medium-replay", 1), ("rebrac-on-hopper-medium-expert", 1)):
        assert counts.pop(name) == logs * 3
    long = ("long", "five-unbounded-long", "td3-bc-long", "td3-bc-our-critics-long")
    assert counts == dict.fromkeys((*long, "five"), 2 * 3)
    lengths = {(run.variant, run.config.training.steps) for run in runs}
    assert {("tethered", 60_000), ("cloning", 20_000), ("best-tenth", 60_000)} | {(name, 300_000) for name in long} <= lengths
    assert [run.config.seed for run in runs] == sorted(run.config.seed for run in runs)  # one seed of all, then the next
    assert {setting(run, "agent.best_share") for run in runs if run.variant == "best-tenth"} == {0.1}
    assert all(run.config.bonus.seed == run.config.seed for run in runs if run.bonus != "none")  # each seed has its own fit


@pytest.mark.parametrize(
    ("which", "tethered"), [("", "five-unbounded"), ("-bounded", "tethered"), ("-long", "five-unbounded-long")]
)
def test_td3_bc_with_our_critics_learns_as_tethered_does(which, tethered):
    first = {run.variant: run.config for run in reversed(proof("proof.toml"))}
    other, ours = first[f"td3-bc-our-critics{which}"], first[tethered]
    assert other.agent.bound_values == (which == "-bounded")
    assert other.training.steps == ours.training.steps
    shared = {field.name for field in fields(other.agent)} & {field.name for field in fields(ours.agent)}
    differing = {name for name in shared if getattr(other.agent, name) != getattr(ours.agent, name)}
    assert differing == {"bonus_weight_actor"}  # it has none
    assert (other.policy, other.training.reward_scaling, ours.agent.traits.reward_scaling) == (ours.policy, "divide", "divide")


def test_what_a_baseline_has_on_some_tasks_alone_is_noted():
    noted = {(run.data.name, run.variant): run.notes for run in proof("proof.toml")}
    assert noted["pen-expert", "iql"] == (
        "agent.inverse_temperature 0.5, agent.dropout 0.1, training.reward_scaling none: "
        "iql's own paper's for manipulation such as pen",
    )
    assert noted["hopper-medium", "iql"] == ()
    (note,) = noted["pen-expert", "tethered"]
    assert note.startswith("agent.bonus_weight_actor 0.003, chosen on locomotion; what is best there is not known")


def test_whose_settings_a_baseline_has_is_noted_with_the_preset_of_the_paper(tmp_path: Path):
    _, (run,) = runs_of(write(tmp_path, 'agents = ["iql"]\nbonuses = ["none"]\n'))
    assert run.config.training.steps == 1_000_000
    assert run.notes[0].startswith("preset paper: iql has the settings of Kostrikov et al. (2021)")


def test_the_ablation_changes_one_thing_at_a_time():
    runs = proof("proof-ablation.toml")
    assert Counter(run.variant for run in runs) == dict.fromkeys({run.variant for run in runs}, 3 * 3)
    assert len({run.variant for run in runs}) == 16
    for variant in read_plan(PLANS / "proof-ablation.toml").variants:
        assert len(variant.settings) + (variant.bonus is not None) == (variant.name != "whole")


def test_so_does_the_one_of_the_paper_s_settings():
    runs = proof("paper-ablation.toml")
    assert {run.method for run in runs} == {"td3-cvae"}
    assert Counter(run.variant for run in runs) == dict.fromkeys({run.variant for run in runs}, 3 * 3)
    assert len({run.variant for run in runs}) == 11
    for variant in read_plan(PLANS / "paper-ablation.toml").variants:
        # Q in another unit needs the weight in that unit; a bound of several draws is a bound.
        assert len(variant.settings) == {"paper": 0, "normalised-q": 2, "importance-weighted-bound": 2}.get(variant.name, 1)


def test_a_variant_has_a_preset_datasets_and_seeds_of_its_own(tmp_path: Path):
    text = """
datasets = ["hopper-medium-v2", "pen-human-v1"]
seeds = [0, 1]
[variants.all]
[variants.short]
preset = "quick"
datasets = ["pen-human-v1"]
seeds = [1]
"""
    plan = read_plan(write(tmp_path, text))
    datasets = [Data("hopper-medium-v2", "hopper", "Hopper-v4"), Data("pen-human-v1", "pen", "AdroitHandPen-v1")]
    runs = expand(plan, datasets)
    assert [run.name for run in runs] == [
        "hopper/tethered-density/all/s0",
        "pen/tethered-density/all/s0",
        "hopper/tethered-density/all/s1",
        "pen/tethered-density/all/s1",
        "pen/td3-cvae/short/s1",  # a preset has its usual agent and bonus
    ]
    assert [run.config.training.steps for run in runs] == [60_000] * 4 + [50_000]


def test_the_variants_of_the_page_are_such_as_it_says(tmp_path: Path):
    page = (PLANS.parent / "docs" / "sweep.md").read_text()
    example = page.split("### Variants\n")[1].split("```")[1].removeprefix("toml\n")
    _, runs = runs_of(write(tmp_path, f"seeds = [0, 1, 2]\n{example}", preset=""))
    counts = Counter((run.method, run.variant) for run in runs)
    assert counts == {("tethered-density", "usual"): 3, ("tethered-density", "short"): 3, ("bc-none", "cloning"): 2}
    assert {setting(run, "agent.discount") for run in runs if run.variant == "short"} == {0.98}
    assert {setting(run, "agent.best_share") for run in runs if run.agent == "bc"} == {0.1}


# What is refused

BAD = {
    "sedes = [0]": "no key sedes; did you mean seeds or steps",
    "seeds = 3": r"seeds is 3; it takes a list of whole numbers from 0 on, such as \[0, 1, 2\]",
    "seeds = [0, 0]": "seeds has 0 twice",
    "seeds = [-1]": r"seeds is \[-1\]; seeds are at least 0",
    "seeds = []": r"seeds is \[\]; it takes",
    "seeds = [true]": r"seeds is \[True\]; it takes",
    'steps = "many"': "steps is 'many'; it takes a whole number, such as 10_000",
    "steps = 1e4": "steps is 10000.0; it takes a whole number, such as 10_000",
    "steps = 100\nsettings.training.steps = 200": r"steps is 100, and settings.training.steps 200; leave one of them out",
    "steps = 0": r"settings, td3-cvae on halfcheetah-mixed-tether: training.steps is 0; it must be at least 1",
    'preset = "papre"': "preset is 'papre'; it takes tether or paper or quick",
    'agents = ["td4"]': r"agents: no agent 'td4'; did you mean td3",
    'bonuses = ["cave"]': r"bonuses: no bonus 'cave'; did you mean cvae",
    'agents = "td3"': "agents is 'td3'; it takes a list of names",
    'name = "../up"': r"name is '../up'; it takes letters, digits and . _ -",
    "settings.agent.tau = 1": "settings, td3-cvae on halfcheetah-mixed-tether: no setting agent.tau",
    "settings = 3": "settings is 3; it takes a table of settings",
    "[grid]\nagent.discount = 0.9": r"grid.agent.discount is 0.9; it takes a list of values",
    "[grid]\nagent.discount = [0.9, 0.9]": r"grid: two variants are both called discount=0.9",
    "[grid]\nagent.discuont = [0.9]": r"variant discuont=0.9, td3-cvae .*: no setting agent.discuont; did you mean",
    "[grid]\nagent.discount = [1.5]": r"variant discount=1.5, .*: agent.discount is 1.5; it must be",
    "[grid]\nagent.discount = [0.9]\n[variants.a]": r"has both \[grid\] and \[variants\]; a plan has one of",
    "[random]\nseed = 1": r"\[random\] has no draws; draws = 20 would do",
    "[random]\ndraws = 0": r"random.draws is 0; it takes a whole number from 1",
    "[grid]": r"\[grid\] has no settings; agent.bonus_weight_actor = \[0.1, 1, 10\] would do",
    "variants.a.agent = 3": 'variants.a.agent is 3; it takes a name in quotes, such as "td3", or a table of settings',
    "variants.a.bonus = true": 'variants.a.bonus is True; it takes a name in quotes, such as "density", or a table of settings',
    '[variants.a]\nagent = "bc"\nagent.best_share = 0.1\n[variants.b]': (
        'a variant with an agent has its settings in quotes, "agent.best_share" = 0.1'
    ),
    '[variants.a]\nbonus.steps = 5\nseeds = [0]\nbonus = "cvae"': (
        'a variant with a bonus has its settings in quotes, "bonus.steps" = 5'
    ),
    "[random]\ndraws = 2": r"\[random\] draws nothing; log_uniform",
    "[random]\ndraws = 2\nlog_uniform.agent.discount = [0, 1]": "it takes two numbers above 0, the lower first",
    "[random]\ndraws = 2\nuniform.agent.discount = [1, 0]": "it takes two numbers, the lower first",
    '[variants."a/b"]': "variants.a/b: a name takes letters, digits",
    'variants.a.agent = "td4"': "variants.a.agent: no agent 'td4'",
    'variants.a.preset = "papre"': "variants.a.preset is 'papre'; it takes tether or paper or quick",
    f'datasets = ["{EMBEDDED}"]\nvariants.a.datasets = ["other"]': f"variants.a.datasets has 'other', which is not .* {EMBEDDED}",
    "variants.a.seeds = [7]": "variants.a.seeds has 7, which is not among the plan's: 0",
    '[choose]\nby = "best"': "choose.by is 'best'; it takes last or last_ten",
    '[choose]\nper = "task"': "choose.per is 'task'; it takes dataset or group or all",
    '[choose]\npolicy = "onlin"': "choose.policy: td3 has no policy 'onlin'; it has online",
    "[choose]\nseeds = [4]": r"choose.seeds has 4, of which the plan has no runs; its seeds are \[0\]",
    "[final]\nseeds = [1]": r"\[final\] has the chosen settings, and there is no \[choose\]",
    "[choose]\n[final]": r"\[final\] names no seeds; seeds = ",
    "[choose]\n[final]\nseeds = [0]": r"final.seeds has 0, which the choice has seen; fresh ones are not among \[0\]",
    'datasets = ["nowhere.hdf5"]': r"datasets\[0\]: .*nowhere.hdf5",
    f'datasets = ["{EMBEDDED}", "hoper-medium-v2"]': r"datasets\[1\]: no dataset named 'hoper-medium-v2'; did you mean",
    "datasets = []": r"datasets is \[\]; it takes a list of names in quotes, such as \[\"hopper-medium-v2\", \"mine.hdf5\"\]",
    "datasets = [": "is not valid TOML",
}


@pytest.mark.parametrize("text", BAD, ids=[text.replace("\n", " ") for text in BAD])
def test_nonsense_is_refused_with_the_file_and_the_key(tmp_path: Path, text: str):
    path = write(tmp_path, text)
    with pytest.raises(TetherError, match=f"{path}.* {BAD[text]}"):
        runs_of(path)


def test_advice_on_quotes_is_for_names_alone(tmp_path: Path):
    for text in (
        '[variants.a]\nagent = "bc"\nagent = "td3"',
        "[variants.b]\nagent.discount = 0.9\n[variants.a]\nagent = 1\nagent = 2",
    ):
        with pytest.raises(TetherError, match="is not valid TOML: Cannot overwrite a value") as refused:
            read_plan(write(tmp_path, text))
        assert "in quotes" not in str(refused.value)


def test_a_byte_order_mark_is_no_part_of_a_plan(tmp_path: Path):
    """Editors of Windows write one."""
    path = write(tmp_path, "steps = 2000")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_plan(path).settings == {"training.steps": 2000}


def test_variants_that_make_the_same_runs_are_said_to(tmp_path: Path):
    text = "[variants.a]\n[variants.b]\nagent.discount = {}\n[variants.c]\nagent.discount = 0.9\n"
    assert twins(runs_of(write(tmp_path, text.format(0.98)))[1]) == []
    assert twins(runs_of(write(tmp_path, text.format(0.99)))[1]) == [("a", "b")]  # the default, spelt out
    assert twins(runs_of(write(tmp_path, text.format(0.9)))[1]) == [("b", "c")]


def test_a_plan_that_is_not_there_is_said_to_be(tmp_path: Path):
    with pytest.raises(TetherError, match=f"^there is no plan {tmp_path}/none.toml; it is a TOML file, at the least"):
        read_plan(tmp_path / "none.toml")
    with pytest.raises(TetherError, match=f"^{tmp_path} is a folder, and .*; `tether report {tmp_path}` tells what runs"):
        read_plan(tmp_path)


def test_what_is_told_to_be_the_least_plan_is_one(tmp_path: Path):
    path = write(tmp_path, LEAST.removeprefix("at the least the line "), preset="")
    assert [run.method for run in runs_of(path)[1]] == ["tethered-density"]
    (tmp_path / "empty.toml").touch()
    with pytest.raises(TetherError, match=r"empty.toml names no datasets; datasets = "):
        read_plan(tmp_path / "empty.toml")
