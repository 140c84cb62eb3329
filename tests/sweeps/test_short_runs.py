"""Of which finished runs it is said that they ended before the others, and of which it is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from deployer.model import Run, Sweep, SweepPath
from deployer.sweeps.doubts import list_doubts
from deployer.sweeps.results import build_results


def build_sweep(names: Mapping[str, Any], **more: Any) -> Sweep:
    parameters = {name: {"values": []} for name in names}
    config = {"method": "random", "metric": {"name": "loss"}, "parameters": parameters, **more}
    return Sweep(SweepPath("e", "p", "s"), "n", "t", "FINISHED", config, 0, None, None)


def build_run(number: int, steps: int, config: Mapping[str, Any]) -> Run:
    summary = {"loss": 0.1 * number, "_step": steps - 1}
    return Run(f"r{number}", "", "finished", dict(config), summary, 0, float(number), 9.0)


LONG = [(20, {"lr": 0.1 * n, "seed": n % 3}) for n in range(1, 8)]


def test_a_run_that_ended_well_and_early_gets_a_remark_and_a_note() -> None:
    runs = [build_run(n, *one) for n, one in enumerate([*LONG, (11, {"lr": 0.33, "seed": 9})])]
    results = build_results(build_sweep(LONG[0][1]), runs)
    assert list_doubts(results) == (
        "1 of 8 finished runs ended before the others: r7 ended at step 11 of 20",
    )
    assert {r.note for r in results.rows if r.run_id == "r7"} == {"ended at step 11 of 20"}
    assert results.failures == ()
    assert results.coverage.finished == 8
    stopping = build_sweep(LONG[0][1], early_terminate={"type": "hyperband", "min_iter": 3})
    assert list_doubts(build_results(stopping, runs)) == ()
    failed = [*runs[:-1], replace(runs[-1], state="failed", exit_code=1)]
    assert list_doubts(build_results(build_sweep(LONG[0][1]), failed)) == ()


@pytest.mark.parametrize(
    "runs",
    [
        [(epochs, {"epochs": epochs, "lr": 0.1 * n}) for epochs in (10, 20) for n in range(6)],
        [(20, {"epochs": 20, "lr": 0.1 * n}) for n in range(9)] + [(5, {"epochs": 5, "lr": 0.1})],
        [(min(20, n), {"max_epochs": n}) for n in (10, 20, 21, 22, 23, 24)],
        [(20, {"T": 20, "lr": 0.1 * n}) for n in range(9)] + [(5, {"T": 5, "lr": 0.1})],
        [(n, {"lr": 0.1 * n}) for n in range(3, 30)],
        [(20, {"data": name}) for name in "abcd"] + [(5, {"data": "tiny"})],
        [(20, {"lr": 0.1 * n, "patience": 3}) for n in range(9)] + [(5, {"lr": 9.0})],
        [(20, {"lr": 0.1}), (20, {"lr": 0.2}), (11, {"lr": 0.3})],
        [(100, {"lr": 0.1 * n}) for n in range(9)] + [(95, {"lr": 9.0})],
    ],
    ids=["epochs", "one-epochs", "cap", "T", "own-rule", "data", "patience", "few", "nearly"],
)
def test_runs_whose_length_may_be_meant_get_none(runs: list[tuple[int, dict[str, Any]]]) -> None:
    given = [build_run(n, *one) for n, one in enumerate(runs)]
    assert list_doubts(build_results(build_sweep(runs[0][1]), given)) == ()
