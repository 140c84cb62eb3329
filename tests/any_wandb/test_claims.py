"""What we claim of every sweep on every W&B server; a test for each claim."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.any_wandb.room import Room, find_agent_of

HELD = 5  # the step at which runs wait
AGENTS = 2
DRAWN: dict[str, Any] = {
    "lr": {"distribution": "log_uniform_values", "min": 0.001, "max": 1.0},
    "layers": {"min": 1, "max": 4},
}
BY_METHOD = pytest.mark.parametrize("method", ["grid", "random", "bayes"])


def write(room: Room, method: str, lrs: int, layers: int) -> list[dict[str, Any]] | int:
    """Write a sweep of lrs * layers configurations; return them, or of one that draws how many."""
    if method != "grid":
        room.write_sweep(method, DRAWN, run_cap=lrs * layers)
        return lrs * layers
    values = {"lr": [0.5 + one for one in range(lrs)], "layers": [*range(1, layers + 1)]}
    room.write_sweep(method, {name: {"values": each} for name, each in values.items()})
    pairs = itertools.product(values["lr"], values["layers"])
    return [{"lr": lr, "layers": count} for lr, count in pairs]


@BY_METHOD
def test_supervised(room: Room, method: str) -> None:
    """Our agents, one of them and a run of another killed."""
    expected = write(room, method, *((4, 3) if method == "grid" else (3, 2)))
    room.steps.hold_at(HELD)
    up = room.start("up", "sweep.yaml", "--replicas", str(AGENTS), "--plain")
    first, second = room.wait_for_trainers(HELD, AGENTS)[:AGENTS]
    find_agent_of(room.state, first).kill()
    second.kill()
    room.steps.hold_at(None)
    room.finish(up, code=None)
    path = room.find_sweep()
    by = room.heal(path)
    sentence = room.count(path, expected)
    room.run("results", path, "--verify")
    room.end(path)
    room.tell("detail", f"{sentence}, {by}")


@BY_METHOD
def test_stock(room: Room, method: str) -> None:
    """Stock `wandb agent`s, a run killed."""
    expected = write(room, method, 2, 2)
    path = room.create()
    room.steps.hold_at(HELD)
    room.start_stock_agents(path, AGENTS)
    room.wait_for_trainers(HELD, AGENTS)[0].kill()
    room.steps.hold_at(None)
    room.wait_for_stock_agents()
    by = room.heal(path)
    room.tell("detail", f"{room.count(path, expected)}, {by}")


def test_heal(room: Room) -> None:
    """A configuration that failed is run again once the script is mended."""
    expected = write(room, "grid", 2, 1)
    script = (room.project.folder / "train.py").read_text()
    broken = script.replace("first = load()", "first = load() if arguments.lr < 1 else sys.exit(7)")
    room.project.write("train.py", broken)
    room.run("up", "sweep.yaml", "--plain", code=3)
    room.project.write("train.py", script)
    path = room.find_sweep()
    assert room.read("results", path)["coverage"]["failed"] == 1
    by = room.heal(path, replicas=1)
    room.tell("detail", f"{room.count(path, expected)}, {by}")


def test_steered(room: Room) -> None:
    """`sweep pause` hands out nothing, `resume` goes on, `stop` ends the sweep."""
    write(room, "grid", 4, 1)
    room.steps.hold_at(HELD)
    path = room.create()
    room.run("agents", "up", path, "--replicas", "1")
    room.wait_for_trainers(HELD, 1)
    room.run("sweep", "pause", path)
    room.steps.hold_at(None)
    room.wait_for(lambda: room.count_finished(path) == 1, "the end of the run under way")
    assert room.read("sweep", "show", path)["state"] == "PAUSED"
    assert len(room.steps.list_events("begin")) == 1
    room.steps.hold_at(HELD)
    room.run("sweep", "resume", path)
    room.wait_for_trainers(HELD, 1)
    room.run("sweep", "stop", path)
    room.steps.hold_at(None)
    room.wait_for(lambda: room.count_finished(path) == 2, "the end of the last run")
    assert room.read("sweep", "show", path)["state"] == "FINISHED"
    room.end(path)
    assert len(room.steps.list_events("begin")) == 2
    room.tell("detail", "paused after 1 run, stopped after 2 of 4")


def test_early(room: Room) -> None:
    """`early_terminate` stops runs that are worse, and they count as finished."""
    rule = {"type": "hyperband", "min_iter": 3, "eta": 3}
    values = {"lr": {"values": [0.01, 1.0, 2.0, 3.0]}, "layers": {"value": 1}}
    slow = {"pause": {"value": 1.5}}
    room.write_sweep("grid", {**values, **slow}, early_terminate=rule)
    room.run("up", "sweep.yaml", "--replicas", "1", "--plain", code=None)
    path = room.find_sweep()
    coverage = room.read("results", path)["coverage"]
    assert coverage["finished"] == 4, coverage["sentence"]
    assert coverage["stopped_early"] > 0, coverage["sentence"]
    room.tell("detail", coverage["sentence"])
