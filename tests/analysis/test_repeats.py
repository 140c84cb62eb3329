"""Repeats as one group, and what is said of a lead."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from deployer.analysis.repeats import (
    Verdict,
    group_repeats,
    has_repeats,
    is_seed,
    note_curves,
)
from deployer.analysis.welch import compare_means
from deployer.model import Sweep, SweepPath
from deployer.sweeps.results import Row, build_results
from tests.analysis.rows import make_row, rank


def repeat(means: dict[float, float], spread: float, times: int, goal: str) -> list[Row]:
    """Return runs of some values of lr, each with so many seeds."""
    draw = random.Random(0)
    pairs = [(lr, seed) for lr in means for seed in range(times)]
    rows = [
        make_row(n, means[lr] + draw.gauss(0, spread), {"lr": lr, "seed": seed})
        for n, (lr, seed) in enumerate(pairs)
    ]
    return rank(rows, goal)


def test_repeats_are_one_group_with_mean_spread_and_count() -> None:
    rows = [
        make_row(1, 1.0, {"lr": 0.1, "seed": 1}),
        make_row(2, 3.0, {"lr": 0.1, "seed": 2}),
        make_row(3, 1.5, {"lr": 0.2, "seed": 1}),
        make_row(4, None, {"lr": 0.2, "seed": 2}, state="failed"),
        make_row(5, None, {"lr": 0.3, "seed": 1}, state="failed"),
    ]
    found = group_repeats(rank(rows), "minimize")
    assert found.seeds == ("seed",)
    assert [(g.rank, g.parameters, g.mean, g.count, g.runs) for g in found.groups] == [
        (1, {"lr": 0.2}, 1.5, 1, 2),
        (2, {"lr": 0.1}, 2.0, 2, 2),
        (None, {"lr": 0.3}, None, 0, 1),
    ]
    assert found.groups[0].deviation is None
    assert found.groups[1].deviation == pytest.approx(2**0.5)
    assert found.groups[1].run_ids == ("run00001", "run00002")


def test_clear_lead_is_beyond_the_noise() -> None:
    found = group_repeats(repeat({0.1: 1.0, 0.2: 2.0, 0.3: 3.0}, 0.1, 4, "minimize"), "minimize")
    assert found.lead.verdict is Verdict.AHEAD
    assert found.lead.difference == pytest.approx(1.0, abs=0.3)
    assert "beyond the noise with 4 and 4 runs" in found.lead.sentence


def test_small_lead_is_within_the_noise() -> None:
    found = group_repeats(repeat({0.1: 1.0, 0.2: 1.01}, 0.5, 4, "maximize"), "maximize")
    assert found.lead.verdict is Verdict.NOISE
    assert found.lead.difference is not None
    assert found.lead.difference >= 0


def test_without_repeats_it_cannot_be_told() -> None:
    found = group_repeats(repeat({0.1: 1.0, 0.2: 2.0}, 0.1, 1, "minimize"), "minimize")
    assert found.lead.verdict is Verdict.UNKNOWN
    assert "cannot be told without repeats" in found.lead.sentence
    assert group_repeats([], "minimize").lead.verdict is Verdict.UNKNOWN


def test_whether_there_are_repeats_is_told_without_grouping() -> None:
    alone = [make_row(n, 1.0, {"lr": lr, "seed": n}) for n, lr in enumerate((0.1, "0.1", None))]
    assert not has_repeats(alone)
    assert has_repeats([*alone, make_row(3, 1.0, {"lr": 0.1, "seed": 3})])
    listed = [make_row(n, 1.0, {"layers": [n]}) for n in range(2)]
    assert has_repeats(listed)  # perhaps


def note(rows: list[Row], curves: dict[int, tuple[float, ...]]) -> list[str]:
    """Return of which run each is a copy, by curves of their numbers."""
    config = {"method": "grid", "metric": {"name": "loss"}}
    sweep = Sweep(SweepPath("e", "p", "s"), "n", "t", "FINISHED", config, 0, None, None)
    named = {f"run{number:05}": curve for number, curve in curves.items()}
    found = note_curves(replace(build_results(sweep, []), rows=tuple(rank(rows))), named)
    assert group_repeats(found.rows, "minimize").groups[0].runs == len(rows)
    return [row.copy_of for row in found.rows]


def test_runs_with_equal_curves_are_one_measurement() -> None:
    rows = [make_row(n, 1.0, {"lr": 0.1, "seed": n}) for n in range(3)]
    long, short = (3.0, 2.0, 1.0), (1.0,)
    assert note(rows, {0: long, 1: long, 2: (2.0, 2.5, 1.0)}) == ["", "run00000", ""]
    assert note(rows, dict.fromkeys(range(3), short)) == ["", "run00000", "run00000"]
    assert note(rows, {0: short, 1: short, 2: (2.0, 1.0)}) == [""] * 3  # perhaps by chance
    assert note(rows, {}) == [""] * 3
    copied = [replace(row, copy_of="run00000" if n else "") for n, row in enumerate(rank(rows))]
    [group] = group_repeats(copied, "minimize").groups
    assert (group.count, group.runs, group.deviation) == (1, 3, None)


def test_runs_that_were_stopped_early_are_not_averaged() -> None:
    rows = rank([make_row(n, float(n), {"lr": 0.1}) for n in range(3)])
    stopped = [replace(row, state="killed") if row.rank == 3 else row for row in rows]
    [group] = group_repeats(stopped, "minimize").groups
    assert (group.mean, group.count, group.runs) == (0.5, 2, 3)


def test_seeds_may_be_named() -> None:
    rows = rank([make_row(n, float(n), {"lr": 0.1, "fold": n}) for n in range(3)])
    assert len(group_repeats(rows, "minimize").groups) == 3
    assert [g.count for g in group_repeats(rows, "minimize", ["fold"]).groups] == [3]


@pytest.mark.parametrize("name", ["seed", "data.seed", "model-seed", "SEED", "random_state"])
def test_names_of_seeds(name: str) -> None:
    assert is_seed(name)


@pytest.mark.parametrize("name", ["seeds", "seed.lr", "reseed", "lr"])
def test_other_names_are_none(name: str) -> None:
    assert not is_seed(name)


@pytest.mark.parametrize(("one", "other"), [(2, 2), (3, 5), (2, 40), (200, 300)])
def test_p_values_are_those_of_scipy(one: int, other: int) -> None:
    from scipy.stats import ttest_ind  # 0.6 s of a core, for whoever runs this test

    draw = random.Random(one)
    first = [draw.gauss(0, 1) for _ in range(one)]
    second = [draw.gauss(0.3, 3) for _ in range(other)]
    expected = ttest_ind(first, second, equal_var=False).pvalue
    assert compare_means(first, second) == pytest.approx(float(expected), abs=1e-9)


def test_repeats_without_any_spread() -> None:
    assert compare_means([1.0, 1.0], [1.0, 1.0]) == 1.0
    assert compare_means([1.0, 1.0], [2.0, 2.0]) == 0.0
