"""Agents of this machine, started, found, followed and stopped through their place."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from deployer.agent.host.processes import list_marked
from deployer.config import paths
from deployer.errors import AgentError
from deployer.executors.local.executor import LocalExecutor
from deployer.executors.plan import build_plan
from deployer.launch import scaling
from deployer.model import Agent, Ending, Plan, SweepPath, Wanted
from deployer.wandb_api.operations import create_agent_keys, get_sweep, list_agents
from tests.agent.conftest import Bench, wait_for
from tests.faults.disk import small_disk
from tests.project_files import build_project, open_local

pytestmark = pytest.mark.slow


def build(bench: Bench, path: SweepPath, replicas: int = 1) -> tuple[Plan, dict[str, str]]:
    """Plan agents for a sweep, and give each the owner's key."""
    plan = build_plan(str(path), bench.backend.url, str(bench.folder), replicas)
    return plan, {agent.name: bench.backend.key for agent in plan.agents}


def folder_of(name: str) -> Path:
    """Return an agent's folder."""
    return paths.agents_folder() / name


def left(name: str) -> list[int]:
    """Return the processes of an agent that still live."""
    return [process.id for process in list_marked(str(folder_of(name)))]


def kill_supervisor(executor: LocalExecutor, name: str) -> None:
    """Kill a supervisor so that it can clean up nothing."""
    [agent] = [agent for agent in executor.list_agents() if agent.name == name]
    assert agent.process_id is not None
    os.kill(agent.process_id, signal.SIGKILL)
    wait_for(lambda: not executor.list_agents()[0].alive, "the supervisor's death")


def supervisors_of(sweep_path: str) -> set[int]:
    """Return the process ids of all supervisors on a sweep, as the process table has them.

    A supervisor's question to the server is asked by a short-lived copy of it.
    """
    commands = {p.pid: p.info["cmdline"] or [] for p in psutil.process_iter(["cmdline"])}
    return {i for i, words in commands.items() if {"deployer.agent", sweep_path} <= {*words}}


@pytest.fixture
def executor(bench: Bench) -> Iterator[LocalExecutor]:
    """Give the place of this test's own home; its agents end with the test."""
    found = open_local(os.environ)
    yield found
    bench.release()
    found.stop([agent.name for agent in found.list_agents()])


def test_agents_run_a_sweep_to_its_end_and_are_found_from_another_shell(
    bench: Bench, executor: LocalExecutor
) -> None:
    path = bench.create_sweep("[1.0, 2.0, 3.0]")
    agents = executor.apply(*build(bench, path, 2))
    names = [f"{path.sweep_id}-a1", f"{path.sweep_id}-a2"]
    assert [agent.name for agent in agents] == names
    assert all(agent.alive for agent in agents)
    question = (
        "from deployer.config.project import Flags; "
        "from deployer.executors.registry import find_executor; "
        "from deployer.launch.request import read_project; "
        "print([agent.name for agent in find_executor(read_project(Flags())).list_agents()])"
    )
    seen = subprocess.check_output([sys.executable, "-c", question], text=True)
    assert seen.strip() == str(names)
    lines = list(executor.log_lines(names, follow=True))
    assert get_sweep(bench.client, path).state == "FINISHED"
    ended = executor.list_agents(str(path))
    assert [(agent.state, agent.exit_code) for agent in ended] == [("ended", 0), ("ended", 0)]
    for name in names:
        said = [line for source, line in lines if source == name]
        assert "ended with exit code 0" in said[-1]
        assert (folder_of(name) / "log").read_text().splitlines() == said
    assert any(line == "threads 1" for _, line in lines)


def test_two_agents_are_applied_one_by_one_and_stopped_at_once(
    bench: Bench, executor: LocalExecutor
) -> None:
    path = bench.create_sweep("[1.0, 2.0]", wait="yes")
    [first] = executor.apply(*build(bench, path, 1))
    [second] = executor.apply(*build(bench, path, 2))
    agents = executor.list_agents()
    assert [agent.process_id for agent in agents] == [first.process_id, second.process_id]
    assert second.process_id not in (None, first.process_id)
    bench.wait_for_work(2)
    for agent in agents:
        check_supervisor(bench, agent)
    names = [agent.name for agent in agents]
    lines = list(executor.log_lines(names, follow=False))
    assert any("About to run command" in line for _, line in lines)
    assert executor.stop(names) == names
    assert [agent.exit_code for agent in executor.list_agents()] == [143, 143]
    assert [left(name) for name in names] == [[], []]
    assert executor.stop(names) == []
    executor.forget(str(path))
    assert executor.list_agents() == []
    assert not folder_of(names[0]).exists()


def test_an_agent_that_has_just_ended_leaves_nothing(bench: Bench, executor: LocalExecutor) -> None:
    """Its status says so a moment before its supervisor is gone."""
    path = bench.create_sweep("[1.0]")
    [agent] = executor.apply(*build(bench, path))
    executor.stop([agent.name])
    [lock] = folder_of(agent.name).glob("*lock*")
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        timer = threading.Timer(0.5, fcntl.flock, (file, fcntl.LOCK_UN))
        timer.start()
        assert executor.forget(str(path))
        timer.join()
    assert not folder_of(agent.name).exists()


def check_supervisor(bench: Bench, agent: Agent) -> None:
    """See that a supervisor has a session of its own, no terminal and no secret on disk."""
    assert agent.process_id is not None
    assert os.getsid(agent.process_id) == agent.process_id
    assert os.readlink(f"/proc/{agent.process_id}/fd/0") == os.devnull
    assert bench.backend.key not in " ".join(psutil.Process(agent.process_id).cmdline())
    for file in folder_of(agent.name).rglob("*"):
        if file.is_file():
            assert bench.backend.key.encode() not in file.read_bytes(), file


def test_two_applies_at_once_start_no_double(bench: Bench, executor: LocalExecutor) -> None:
    plan, keys = build(bench, bench.create_sweep(wait="yes"), 2)
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda _: executor.apply(plan, keys), range(3)))
    supervisors = {agent.process_id for result in results for agent in result}
    assert len(supervisors) == 2
    wait_for(lambda: supervisors_of(plan.sweep_path) == supervisors, "two supervisors, no third")


@pytest.mark.full
def test_stop_after_a_killed_supervisor_ends_agent_and_run(
    bench: Bench, executor: LocalExecutor
) -> None:
    path = bench.create_sweep("[1.0, 2.0]", wait="yes")
    plan, _ = build(bench, path)
    names = tuple(agent.name for agent in plan.agents)
    [agent] = executor.apply(plan, create_agent_keys(bench.client, path, names, "once"))
    bench.wait_for_work()
    kill_supervisor(executor, agent.name)
    [lost] = executor.list_agents()
    assert (lost.state, lost.exit_code, lost.process_id) == ("lost", None, None)
    assert lost.reason == "its supervisor was killed"
    assert left(agent.name)
    executor.forget()
    assert executor.list_agents() == [lost]
    assert executor.stop([agent.name]) == [agent.name]
    assert left(agent.name) == []
    assert [(run.state, run.exit_code) for run in bench.runs(path)] == [("preempted", 1)]
    assert [there.state for there in list_agents(bench.client, path)] == ["FINISHED"]


@pytest.mark.full
@pytest.mark.kube  # root
def test_stop_on_a_full_disk_ends_an_agent_that_could_not_say_who_it_is(bench: Bench) -> None:
    path = bench.create_sweep("[1.0]", wait="yes")
    with small_disk(paths.agents_folder(), 1) as disk:
        executor = open_local(os.environ)
        [agent] = executor.apply(*build(bench, path))
        bench.wait_for_work()
        wait_for(lambda: executor.list_agents()[0].run_id, "its last status")
        (folder_of(agent.name) / "status.json").unlink()
        executor.wanted.change(str(path), lambda _: Wanted(1))
        disk.fill()
        state = os.statvfs(disk.folder)
        files = f"remount,nr_inodes={state.f_files - state.f_ffree}"
        subprocess.run(["mount", "-o", files, disk.folder], check=True)
        executor.wanted.change(str(path), lambda old: old and old.without([agent.name]))
        assert executor.wanted.get(str(path)) is None  # nobody, rather than this one again
        assert executor.stop([agent.name]) == [agent.name]
        assert left(agent.name) == []
        executor.forget(str(path))
        assert executor.list_agents() == []
    assert [(run.state, run.exit_code) for run in bench.runs(path)] == [("preempted", 1)]


@pytest.mark.full
def test_a_lost_agent_is_replaced_under_its_name(bench: Bench, executor: LocalExecutor) -> None:
    path = bench.create_sweep("[1.0, 2.0]", wait="yes")
    plan, keys = build(bench, path)
    [agent] = executor.apply(plan, keys)
    bench.wait_for_work()
    before = left(agent.name)
    kill_supervisor(executor, agent.name)
    [successor] = executor.apply(plan, keys)
    assert (successor.name, successor.alive) == (agent.name, True)
    wait_for(lambda: not set(before) & set(left(agent.name)), "the end of what was left")


@pytest.mark.full
def test_a_drained_agent_leaves_after_its_run(bench: Bench, executor: LocalExecutor) -> None:
    path = bench.create_sweep("[1.0, 2.0]", wait="yes")
    [agent] = executor.apply(*build(bench, path))
    bench.wait_for_work()
    executor.drain([agent.name])
    wait_for(lambda: executor.list_agents()[0].state == "draining", "draining")
    assert executor.list_agents()[0].alive
    bench.release()
    wait_for(lambda: executor.list_agents()[0].state == "ended", "the end")
    ended = executor.list_agents()[0]
    assert (ended.exit_code, ended.ending) == (0, Ending.DRAINED)
    assert [run.state for run in bench.runs(path)] == ["finished"]


class Lasting(LocalExecutor):
    """A place with an agent that has ended and one that does not end."""

    def list_agents(self, sweep_path: str | None = None) -> tuple[Agent, ...]:
        path = sweep_path or ""
        return (
            Agent("s-a1", path, "ended", 0.0, exit_code=0),
            Agent("s-a2", path, "running", 0.0, run_id="r1", stop_seconds=34.0),
        )


def test_who_does_not_end_is_named_while_everybody_waits(
    monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    monkeypatch.setattr(scaling, "SILENT_SECONDS", 0.0)
    with scaling.report_slow_stop(Lasting("local", build_project()), "e/p/s"):
        wait_for(lambda: told, "its name")
    assert told == ["waiting up to 34 s for s-a2 (run r1), then killing them"]


def test_an_agent_that_cannot_start_is_an_error_with_its_words(
    bench: Bench, executor: LocalExecutor
) -> None:
    plan, keys = build(bench, bench.create_sweep())
    with pytest.raises(AgentError, match="cannot start agent"):
        executor.apply(Plan(plan.sweep_path, plan.base_url, "/no/such/folder", plan.agents), keys)


def test_an_unknown_agent_is_named(executor: LocalExecutor) -> None:
    with pytest.raises(AgentError, match="no agent nobody-1 on this machine"):
        executor.drain(["nobody-1"])
