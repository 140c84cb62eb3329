"""Recounting histories: doubled steps, missing ones, and strides that are no loss."""

from __future__ import annotations

import uuid

import pytest

from deployer.model import Run, SweepPath
from deployer.sweeps.recount import find_doubled, find_gaps, judge_histories, verify_sweep
from deployer.wandb_api.client import Client
from deployer.wandb_api.history import History
from deployer.wandb_api.operations import get_snapshot, get_viewer
from deployer.wandb_api.server import Server
from tests.backend.client import Client as Sdk
from tests.backend.client import grid
from tests.conftest import ServedBackend


def run(last: int | None = None) -> Run:
    summary = {} if last is None else {"_step": last}
    return Run("r", "", "finished", {}, summary, 0, 0.0, 1.0)


def history(*steps: int, count: int | None = None) -> History:
    return History(steps, len(steps) if count is None else count)


@pytest.mark.parametrize(
    ("steps", "last", "gaps"),
    [
        ((0, 1, 2, 3), 3, ()),
        ((1, 2, 3), 3, ()),
        ((10, 20, 30, 40), 40, ()),
        ((0, 10, 20, 28, 30), 30, ()),  # an evaluation in between
        ((0, 7, 9, 30), 30, ()),  # no stride at all
        ((0,), 0, ()),
        ((), None, ()),
        ((0, 1, 2, 5, 6), 6, ((2, 5),)),
        ((4, 5, 6), 6, ((None, 4),)),
        ((0, 1, 2), 6, ((2, None),)),
        ((), 6, ((None, None),)),
    ],
)
def test_a_gap_is_what_is_wider_than_the_usual_stride(
    steps: tuple[int, ...], last: int | None, gaps: tuple[object, ...]
) -> None:
    assert find_gaps(run(last), history(*steps)) == gaps


def test_fewer_rows_than_the_server_counts_are_a_gap() -> None:
    assert find_gaps(run(2), history(0, 1, 2, count=5)) == ((2, None),)


def test_doubled_steps() -> None:
    assert find_doubled((0, 1, 2, 1, 2, 3)) == (1, 2)


def test_a_gap_that_most_runs_have_is_their_habit() -> None:
    odd = history(0, 1, 2, 3, 100)
    found = judge_histories({"a": (run(100), odd), "b": (run(100), odd), "c": (run(3), odd)})
    assert found.good
    alone = judge_histories({"a": (run(100), odd), "b": (run(3), history(0, 1, 2, 3))})
    assert alone.missing == {"a": ((3, 100),)}
    assert alone.sentence() == (
        "verified 9 rows of 2 finished runs, 0 steps doubled, 1 gaps, "
        "first gap: between steps 3 and 100 of a"
    )


def test_the_raw_history_of_a_real_server(plain_backend: ServedBackend) -> None:
    client = Client(plain_backend.url, plain_backend.key)
    sdk = Sdk.of(plain_backend, f"verify-{uuid.uuid4().hex[:8]}")
    sweep = sdk.create_sweep(grid(lr=[1, 2, 3]))
    agent = sdk.create_agent(sweep)
    for steps in (range(2500), [*range(0, 5000, 2)], [0, 1, 1, 2, 5]):
        (command,) = sdk.heartbeat(agent)
        sdk.init_run(command["run_id"])
        sdk.log(command["run_id"], [{"_step": step, "loss": 1.0} for step in steps])
        sdk.finish(command["run_id"])
    snapshot = get_snapshot(client, SweepPath(sdk.entity, sdk.project, sweep))
    found = verify_sweep(Server(client, get_viewer(client), embedded=False), snapshot)
    bad = snapshot.runs[2].run_id
    assert (found.runs, found.rows) == (3, 5005)
    assert found.doubled == {bad: (1,)}
    assert found.missing == {bad: ((2, 5),)}
