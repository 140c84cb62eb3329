"""Which runs were whose, where an agent was replaced by another of its name."""

from __future__ import annotations

from deployer.model import Attempt, Run, Sweep, SweepPath
from deployer.page.sweep_document import Doing
from deployer.report.collection import list_agents
from deployer.wandb_api.model import AgentInfo, Snapshot

SWEEP = Sweep(SweepPath("e", "p", "s"), "n", "t", "RUNNING", {}, 0, None, None)


def make_run(number: int, agent: str, assigned_at: float, state: str = "finished") -> Run:
    attempt = Attempt(1, agent, assigned_at, None, None, None)
    return Run(f"r{number}", "", state, {}, {}, 0, assigned_at, None, attempts=(attempt,))


def test_a_replaced_agent_has_its_own_runs_alone() -> None:
    agents = (
        AgentInfo("id-1", "agent-1", "host", "CRASHED", 30.0),
        AgentInfo("id-2", "agent-2", "host", "RUNNING", 99.0),
        AgentInfo("id-3", "agent-1", "host", "RUNNING", 90.0),
    )
    runs = [make_run(n, "agent-1", 10.0 * n) for n in range(1, 4)]
    runs += [make_run(n, "agent-1", 31.0 + n) for n in range(4, 7)]
    runs += [make_run(n, "agent-2", 10.0 * n) for n in range(7, 10)]
    runs += [make_run(10, "agent-1", 95.5, "running"), make_run(11, "gone", 5.0)]
    runs.append(Run("bare", "", "finished", {}, {}, 0, None, None))
    first, second, third = list_agents(Snapshot(SWEEP, tuple(runs), agents))
    assert [one.finished for one in (first, second, third)] == [3, 3, 3]
    assert [one.doing for one in (first, second, third)] == [
        Doing.SILENT,
        Doing.WAITING,
        Doing.WORKING,
    ]
    assert (first.run_id, third.run_id) == (None, "r10")


def test_a_heartbeat_is_known_to_the_second_alone() -> None:
    agents = (
        AgentInfo("id-1", "agent-1", "host", "CRASHED", 30.0),
        AgentInfo("id-2", "agent-1", "host", "RUNNING", 90.0),
    )
    first, second = list_agents(Snapshot(SWEEP, (make_run(1, "agent-1", 30.7),), agents))
    assert (first.finished, second.finished) == (1, 0)
