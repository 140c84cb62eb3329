"""What a watcher does of its own, and says of it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import pytest

from deployer.executors.local.executor import LocalExecutor
from deployer.executors.plan import build_plan
from deployer.model import Agent, Plan, Wanted
from deployer.sweeps.results import Row
from deployer.wandb_api.client import Client
from deployer.wandb_api.model import Viewer
from deployer.wandb_api.server import Server
from deployer.watch.reconciliation import Reconciler
from deployer.watch.status import Status
from tests.conftest import ServedBackend
from tests.project_files import GivenNumber, build_project
from tests.watch.test_rules_nodes import build_history
from tests.watch.test_rules_restarts import PATH, agent, status


class Nodes(LocalExecutor):
    """Notes which agents are stopped."""

    def __init__(self, agents: Sequence[Agent]) -> None:
        super().__init__("local", build_project())
        self.agents = agents
        self.wanted = GivenNumber(str(PATH), Wanted(2))
        self.stopped: list[str] = []

    def list_agents(self, sweep_path: str | None = None) -> Sequence[Agent]:
        return [one for one in self.agents if sweep_path in (None, one.sweep_path)]

    def stop(self, names: Sequence[str]) -> Sequence[str]:
        self.stopped += names
        return names


class Notes:
    """Notes what a watcher wants to start, and starts nothing."""

    def __init__(self) -> None:
        self.wanted: list[tuple[object, ...]] = []

    def plan(
        self,
        count: int,
        avoided: Sequence[str],
        avoided_nodes: Sequence[str],
    ) -> Plan:
        self.wanted.append((count, *avoided, *avoided_nodes))
        return build_plan(str(PATH), "http://here", "/folder", 0)

    def start(self, plan: Plan) -> Sequence[Agent]:
        return [Agent(one.name, plan.sweep_path, "starting", 0.0) for one in plan.agents]


def open_watcher(backend: ServedBackend, nodes: Nodes, starter: Notes) -> Reconciler:
    server = Server(Client(backend.url, backend.key), Viewer("", ""), embedded=False)
    return Reconciler(server, nodes, PATH, starter, None)


@pytest.mark.parametrize("foreign", [False, True], ids=["own runs", "another owner's runs"])
def test_a_watcher_moves_only_its_own_agents(backend: ServedBackend, *, foreign: bool) -> None:
    """Off a node where its own agents' runs fail: another's may fail for their own settings."""
    rows, _ = build_history("b1f b2f b3f b4f a5x a6x a7x")
    running = [
        replace(
            row, attempts=tuple(replace(one, ended_at=None, cause=None) for one in row.attempts)
        )
        for row in rows
    ]
    agents = [replace(agent(name), node=name[0]) for name in ("a", "a-too", "b")]
    agents[not foreign] = replace(agents[not foreign], foreign=True)

    def show(rows: Sequence[Row]) -> Status:
        seen = status(*agents, runs="r")
        return replace(seen, results=replace(seen.results, rows=tuple(rows)))

    nodes, starter = Nodes(agents), Notes()
    watcher = open_watcher(backend, nodes, starter)
    watcher.reconcile(show(running))
    watcher.reconcile(show(rows))
    assert nodes.stopped == ([] if foreign else ["a"])
    assert starter.wanted == ([] if foreign else [(1, "a")])


@pytest.mark.parametrize("number", [Wanted(0), None], ids=["scaled to 0", "taken down"])
def test_a_watcher_says_why_it_leaves(
    backend: ServedBackend, caplog: pytest.LogCaptureFixture, number: Wanted | None
) -> None:
    caplog.set_level(logging.INFO)
    nodes = Nodes([])
    watcher = open_watcher(backend, nodes, Notes())
    watcher.reconcile(status(runs="r"))
    nodes.wanted.number = number
    for _ in range(2):
        watcher.reconcile(status(runs="r"))
    more = f"to start agents again: deployer agents up {PATH} --replicas N"
    said = f"another command set the number of agents to 0; {more}"
    assert [one.getMessage() for one in caplog.records].count(said) == 1
