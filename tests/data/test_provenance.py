"""Where data came from: what two datasets have in common, as far as their files tell."""

from __future__ import annotations

import pytest
from problems import named_log as log

from tether.data.provenance import ancestors, check_columns, imported_columns
from tether.data.transforms import concatenate, filter_by_return, split_episodes, subsample
from tether.errors import TetherError


def test_ancestors_go_back_to_the_first():
    first, second = log(0), log(1)
    both = concatenate([first, second])
    best = filter_by_return(both, best_share=0.5)
    assert ancestors(best.provenance) == {both.sha256, first.sha256, second.sha256} | ancestors(first.provenance)
    assert best.sha256 not in ancestors(best.provenance)


@pytest.mark.parametrize("provenance", [{}, {"parents": "?"}, {"operation": "x", "arguments": {}, "parents": [1]}])
def test_what_a_file_says_of_itself_in_another_form_has_none(provenance: dict[str, object]):
    assert ancestors(provenance) == set()


def test_columns_in_another_order_are_other_columns():
    one, other = (imported_columns(log(columns=names).provenance) for names in (("heat", "speed"), ("speed", "heat")))
    check_columns("one", one, "again", one)
    check_columns("one", one, "nobody knows", None)
    with pytest.raises(
        TetherError, match=r"^one has other columns than other: .*'heat', 'speed'.* and .*'speed', 'heat'.*; import it"
    ):
        check_columns("one", one, "other", other)


def test_halves_of_one_log_are_no_ancestors_of_each_other():
    train, held_out = split_episodes(log(), 0.5, seed=0)
    assert held_out.sha256 not in ancestors(train.provenance)
    assert train.sha256 not in ancestors(held_out.provenance)
    assert train.sha256 in ancestors(subsample(train, episodes=3).provenance)


def test_logs_with_columns_in_another_order_do_not_join():
    with pytest.raises(TetherError, match="has other columns than"):
        concatenate([log(0), log(1, ("speed", "heat"))])
