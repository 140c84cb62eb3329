"""Status, forecast and the watching loop, from runs and agents as they come."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from deployer.cli.output.status import build_live_view, build_status_line
from deployer.errors import WandbError, WatchTimeout
from deployer.model import Agent, AgentState, Attempt, Run, Sweep, SweepPath
from deployer.wandb_api.model import AgentInfo
from deployer.watch.status import (
    POLL_SECONDS,
    SHORTEST_SECONDS,
    Status,
    count_other_agents,
    summarise_status,
    watch_status,
)

PATH = SweepPath("e", "p", "s")
CONFIG: dict[str, Any] = {
    "method": "grid",
    "metric": {"name": "loss"},
    "parameters": {"lr": {"values": [1, 2, 3, 4]}},
}


def run(run_id: str, state: str, lr: int, loss: float | None = None, **more: Any) -> Run:
    summary = {} if loss is None else {"loss": loss, "_runtime": 60.0}
    return Run(run_id, f"title-{run_id}", state, {"lr": lr}, summary, None, 1000.0, None, **more)


def agent(name: str, state: AgentState = "running", run_id: str | None = None) -> Agent:
    return Agent(name=name, sweep_path=str(PATH), state=state, started_at=0.0, run_id=run_id)


def status(
    state: str = "RUNNING",
    runs: tuple[Run, ...] = (),
    agents: tuple[Agent, ...] = (),
    others: int = 0,
    now: float = 1030.0,
) -> Status:
    sweep = Sweep(PATH, "node", "title", state, CONFIG, len(runs), 4, None)
    return summarise_status(sweep, runs, agents, others, None, now)


HALF = (run("a", "finished", 1, 0.5), run("b", "running", 2))


def test_status_says_who_does_what_and_what_is_best() -> None:
    seen = status(runs=HALF, agents=(agent("x", run_id="b"), agent("y", "ended")))
    assert seen.counts == {"finished": 1, "running": 1}
    assert [(a.name, row and row.title) for a in seen.agents for row in [seen.find_row(a)]] == [
        ("x", "title-b"),
        ("y", None),
    ]
    assert seen.living_agents == 1
    assert seen.best is not None
    assert (seen.best.run_id, seen.best.value) == ("a", 0.5)


def test_a_paused_sweep_has_no_forecast() -> None:
    assert status("PAUSED", runs=HALF, agents=(agent("x"),)).ends_at is None


def test_forecast_shares_what_is_left_among_living_agents() -> None:
    # Three take 60 s and a poll of 5 s each, one of them is 30 s old: 165 s of work.
    assert status(runs=HALF, agents=(agent("x"),)).ends_at == 1030.0 + 165.0
    assert status(runs=HALF, agents=(agent("x"), agent("y"))).ends_at == 1030.0 + 82.5
    assert status(runs=HALF, agents=(agent("x"),), others=1).ends_at == 1030.0 + 82.5


def test_forecast_goes_by_what_a_run_has_taken_its_agent() -> None:
    first = replace(HALF[0], attempts=(Attempt(1, "x", 990.0, 1010.0, "finished", 0),))
    # 3 runs of 20 s each, of which the one that is at work has spent them all.
    assert status(runs=(first, HALF[1]), agents=(agent("x"),)).ends_at == 1030.0 + 40.0
    second = replace(HALF[1], attempts=(Attempt(1, "x", 1015.0, None, None, None),))
    assert status(runs=(first, second), agents=(agent("x"),)).ends_at == 1030.0 + 50.0


def test_forecast_goes_by_the_time_between_finishes_once_it_is_known() -> None:
    ends = (1000.0, 1010.0, 1020.0, 1030.0)
    done = tuple(
        replace(run(str(n), "finished", n, 0.5), heartbeat_at=end) for n, end in enumerate(ends)
    )
    sweep = Sweep(PATH, "node", "title", "RUNNING", CONFIG, 4, 10, None)
    seen = summarise_status(sweep, done, (agent("x"),), 0, None, 1031.0)
    assert seen.ends_at == 1030.0 + 6 * 10.0
    # What is overdue comes at once, the other five after it; the last one cannot be foreseen.
    late = summarise_status(sweep, done, (agent("x"),), 0, None, 2000.0)
    assert late.ends_at == 2000.0 + 5 * 10.0
    nearly = replace(sweep, expected=5)
    assert summarise_status(nearly, done, (agent("x"),), 0, None, 2000.0).ends_at is None


@pytest.mark.parametrize("jump", [-800_000.0, 800_000.0])
def test_a_clock_that_was_set_moves_no_forecast_by_days(jump: float) -> None:
    ends = [1000.0, 1000.0, 1010.0, 1010.0, 1020.0, 1020.0, 1030.0, 1030.0]
    ends[6:] = [end + jump for end in ends[6:]]
    done = tuple(
        replace(run(str(n), "finished", n, 0.5), heartbeat_at=end) for n, end in enumerate(ends)
    )
    sweep = Sweep(PATH, "node", "title", "RUNNING", CONFIG, 8, 12, None)
    agents = (agent("x"), agent("y"))
    ends_at = summarise_status(sweep, done, agents, 0, None, 1031.0 + jump).ends_at
    assert ends_at is not None
    assert ends_at - (1031.0 + jump) < 60.0
    # Begun before the clock was set back: not so much work that is still to be done.
    older = (run("a", "finished", 1, 0.5), replace(run("b", "running", 2), created_at=800_000.0))
    assert status(runs=older, agents=(agent("x"),)).ends_at == 1030.0 + 195.0


def test_there_is_no_forecast_without_a_finished_run_or_an_agent() -> None:
    assert status(runs=(HALF[1],), agents=(agent("x"),)).ends_at is None
    assert status(runs=HALF, agents=(agent("x", "lost"),)).ends_at is None


@pytest.mark.parametrize(
    ("state", "agents", "others", "runs", "over"),
    [
        ("RUNNING", (agent("x"),), 0, HALF, False),
        ("FINISHED", (agent("x", "draining"),), 0, (), False),
        ("FINISHED", (agent("x", "ended"),), 0, (), True),
        ("FINISHED", (), 1, HALF, False),
        ("CANCELED", (), 0, (), True),
        ("RUNNING", (agent("x", "lost"),), 0, HALF, True),
        ("RUNNING", (), 1, (), False),
    ],
)
def test_a_sweep_is_over_when_nothing_moves(
    state: str, agents: tuple[Agent, ...], others: int, runs: tuple[Run, ...], over: bool
) -> None:
    assert status(state, runs, agents, others).over is over


def test_agents_elsewhere_are_those_alive_beyond_ours() -> None:
    infos = [
        AgentInfo("1", "n", "h", "RUNNING", 1000.0),
        AgentInfo("2", "n", "h", "RUNNING", 1000.0),
        AgentInfo("3", "n", "h", "FINISHED", 1000.0),
        AgentInfo("4", "n", "h", "RUNNING", 100.0),
    ]
    assert count_other_agents(infos, ours={"a"}, now=1010.0) == 1
    assert count_other_agents(infos, ours={"a", "b", "c"}, now=1010.0) == 0


def test_status_line() -> None:
    line = build_status_line(status(runs=HALF, agents=(agent("x", run_id="b"),)), now=1030.0)
    assert line == "1/4 finished, 1 running, 1 agent, best loss=0.5 (a), about 3 min left"
    paused = build_status_line(status("PAUSED", agents=(agent("x"), agent("y")), others=1), 0.0)
    assert paused == "0/4 finished, 2 agents and 1 elsewhere, sweep paused"


def test_a_run_that_waits_for_its_next_attempt_is_not_called_preempted() -> None:
    runs = (run("a", "preempted", 1),)
    assert build_status_line(status(runs=runs), 0.0).startswith("0/4 finished, 1 queued")
    assert "1 preempted" in build_status_line(status("CANCELED", runs=runs), 0.0)


def test_live_view_shows_a_line_for_each_agent() -> None:
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    here = replace(agent("left", run_id="b"), node=platform.node())
    seen = status(runs=HALF, agents=(here, agent("right", "starting")))
    Console(file=out, width=200).print(build_live_view(seen, 1030.0))
    text = out.getvalue()
    assert "title-b" in text
    assert "right" in text
    assert "starting" in text
    [head] = [line.split() for line in text.splitlines() if "AGENT" in line]
    assert head == ["AGENT", "STATE", "RUN"], "no column that would be empty, or name this machine"


def test_live_view_joins_run_metric_node_gpu_and_restarts() -> None:
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    one = replace(agent("x-a1", run_id="b"), node="node-7", gpu="1 Tesla-T4", restarts=2)
    seen = status(runs=(run("b", "running", 2, 0.25),), agents=(one,))
    Console(file=out, width=200).print(build_live_view(seen, 1030.0))
    [head] = [line.split() for line in out.getvalue().splitlines() if "AGENT" in line]
    [line] = [line.split() for line in out.getvalue().splitlines() if "x-a1" in line]
    assert head == ["AGENT", "STATE", "RUN", "loss", "NODE", "GPU", "RESTARTS"]
    assert line == ["x-a1", "running", "b", "title-b", "0.25", "node-7", "1", "Tesla-T4", "2"]


def show(seen: Status, **more: str) -> list[str]:
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    Console(file=out, width=200).print(build_live_view(seen, 1030.0, **more))
    return out.getvalue().splitlines()


def test_live_view_shows_the_best_run_although_it_is_still_running() -> None:
    runs = (run("a", "finished", 1, 0.5), run("b", "running", 2, 0.25))
    assert "best loss=0.25 (b) so far  lr=2" in show(status(runs=runs))
    worse = (runs[0], run("b", "running", 2, 0.75))
    assert "best loss=0.5 (a)  lr=1" in show(status(runs=worse))


def test_live_view_tells_an_agent_that_has_no_run_yet() -> None:
    runs = (run("b", "pending", 2),)
    seen = status(runs=runs, agents=(agent("x", run_id="b"), agent("y")))
    assert sum("starting its run" in line for line in show(seen)) == 2
    done = tuple(run(name, "finished", n, 0.5) for n, name in enumerate("abcd", 1))
    [line] = [line for line in show(status(runs=done, agents=(agent("y"),))) if line[:1] == "y"]
    assert line.split() == ["y", "waiting"]


def test_live_view_calls_a_sweep_without_a_title_by_its_file() -> None:
    seen = status()
    assert show(seen, name="digits")[0].split()[0] == seen.title
    untitled = replace(seen, title=seen.sweep_path.rpartition("/")[2])
    assert show(untitled, name="digits")[0].startswith("digits  ")


class Clock:
    """A clock that only moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def read(self) -> float:
        return self.now


def watch(
    script: list[Status | WandbError],
    timeout: float | None = None,
    reconcile: Callable[[Status], bool] = lambda _: False,
) -> Iterator[Status]:
    clock = Clock()
    replies = iter(script)

    def read(_now: float) -> Status:
        reply = next(replies)
        if isinstance(reply, WandbError):
            raise reply
        return reply

    return watch_status(read, clock.read, clock.sleep, timeout, reconcile)


GOING = status(runs=HALF, agents=(agent("x", run_id="b"),))
OVER = status("FINISHED", runs=HALF[:1], agents=(agent("x", "ended"),))


def test_only_changes_are_shown_and_the_end_is_the_last() -> None:
    later = status(runs=HALF, agents=(agent("x", run_id="b"),), now=1031.0)
    assert list(watch([GOING, later, GOING, OVER])) == [GOING, OVER]


def test_a_server_that_is_away_is_waited_for() -> None:
    away = WandbError("cannot be reached", status=0)
    shown = list(watch([GOING, away, away, OVER]))
    assert [s.trouble for s in shown] == ["", "cannot be reached", ""]
    assert list(watch([away, away, GOING, OVER])) == [GOING, OVER]


def test_what_a_server_refuses_for_good_ends_the_watching() -> None:
    with pytest.raises(WandbError, match="no such key"):
        list(watch([GOING, WandbError("no such key", status=401)]))
    with pytest.raises(WandbError, match="no such key"):
        list(watch([WandbError("no such key", status=401)]))


def test_watching_ends_after_its_time() -> None:
    with pytest.raises(WatchTimeout):
        list(watch([GOING] * 10, timeout=3 * POLL_SECONDS))


def test_a_watcher_looks_often_at_first_and_again_at_the_end() -> None:
    clock, leaving = Clock(), status("FINISHED", runs=HALF[:1], agents=(agent("x", run_id="a"),))
    waits: list[float] = []

    def read(_now: float) -> Status:
        return GOING if clock.now < 200 else leaving if clock.now < 205 else OVER

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        clock.sleep(seconds)

    list(watch_status(read, clock.read, sleep, quick=True))
    assert waits[0] == SHORTEST_SECONDS
    assert max(waits) == POLL_SECONDS
    assert waits[-1] < 2 * SHORTEST_SECONDS
    assert len(waits) < 200


def test_a_sweep_goes_on_while_something_is_done_about_it() -> None:
    answers = iter([True, True, False])
    seen: list[Status] = []

    def reconcile(status: Status) -> bool:
        seen.append(status)
        return next(answers)

    assert list(watch([OVER, OVER, OVER], reconcile=reconcile)) == [OVER]
    assert seen == [OVER] * 3


def test_what_is_done_waits_for_the_server() -> None:
    away = WandbError("cannot be reached", status=0)
    seen: list[Status] = []

    def reconcile(status: Status) -> bool:
        seen.append(status)
        return False

    list(watch([GOING, away, OVER], reconcile=reconcile))
    assert [s.trouble for s in seen] == ["", "cannot be reached", ""]
