"""Repeats as one group."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deployer.analysis.repeats import group_repeats, is_seed, note_curves
from deployer.model import Sweep, SweepPath
from deployer.sweeps.results import Row, build_results
from tests.analysis.rows import make_row, rank


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


@pytest.mark.parametrize(
    "name", ["seed", "data.seed", "model-seed", "SEED", "random_state", "JOB_ID"]
)
def test_names_of_seeds(name: str) -> None:
    assert is_seed(name)


@pytest.mark.parametrize("name", ["seeds", "seed.lr", "reseed", "lr"])
def test_other_names_are_none(name: str) -> None:
    assert not is_seed(name)
