"""A dress rehearsal: one run of a sweep in a container of this machine, as its pod would have it.

Its W&B server is an embedded backend of its own, which ends with it: no server of the user gets a
run, and nothing is sent to a cluster.
"""

from __future__ import annotations

import os
import shlex
import socket
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import Popen, TimeoutExpired

from deployer.backend.server.daemon import start_backend, stop_backend
from deployer.config.project import EMBEDDED, LOCAL, Project
from deployer.executors.base import Agent
from deployer.executors.plan import Plan, build_plan
from deployer.executors.registry import find_target
from deployer.executors.target import Target, Tell
from deployer.images.builders import Builder, choose_builder
from deployer.images.containers import (
    WITHOUT_IN_BUILDAH,
    ContainerPlan,
    Machine,
    build_commands,
    clear_folder,
    running,
)
from deployer.launch.agents.agent_environment import build_environment, choose_pace
from deployer.launch.checks.check import check
from deployer.launch.checks.script import add_script_check, check_script_first
from deployer.launch.code import settle_code
from deployer.launch.request import Request
from deployer.launch.server import connect
from deployer.sweeps.creation import Draws, build_text
from deployer.wandb_api.model import SweepPath
from deployer.wandb_api.operations import create_agent_keys, create_sweep, get_memory, get_snapshot
from deployer.wandb_api.server import Server
from deployer.watch.agent_runs import join_runs
from deployer.watch.probe import Probe, Report
from deployer.watch.status import summarise_status

POLL_SECONDS = 0.5
PREFIX = "deployer-rehearsal-"


@dataclass(frozen=True)
class Rehearsal:
    """What the run has shown; `exit_code` is the container's, None if it was ended here."""

    report: Report
    exit_code: int | None


def rehearse(
    project: Project, request: Request, tell: Tell, tell_line: Tell, *, to_end: bool = False
) -> Rehearsal:
    """Run one configuration in the pod's image on this machine, and remove all of it afterwards.

    It ends with its run, or unless `to_end` once a probe has seen enough. `tell_line` gets what the
    container prints. Raises DeployerError.
    """
    for warning in request.sweep.warnings:
        tell(f"warning: {warning}")
    project = settle_code(project, tell)
    target = find_target(project)
    check(project, target, request, None)
    check_script_first(project, request, tell)
    builder = choose_builder(project.image.builder, project.environment)
    with _opened(project, builder, tell) as (folder, server, images):
        path = _make_sweep(server, project, request)
        plan = _build_plan(project, target, request, server, path)
        machine = _describe_machine(project, folder / "volumes")
        names = tuple(agent.name for agent in plan.agents)
        [key] = create_agent_keys(server.client, path, names, uuid.uuid4().hex).values()
        planned = target.plan_container(plan, key, machine, tell)
        images.append((planned.container.image, planned.container.command[0]))
        planned.make_mounts()
        _describe(builder, folder.name, planned, project, tell)
        return _run(builder, folder.name, planned, _Watch(server, plan, to_end), tell_line)


@contextmanager
def _opened(
    project: Project, builder: Builder, tell: Tell
) -> Iterator[tuple[Path, Server, list[tuple[str, str]]]]:
    """Yield a folder and a backend that end with the block.

    The list takes the image and the Python by which files of the container's user are deleted.
    """
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    data = folder / "backend"
    images = [("", "")]
    try:
        start_backend(data)
        own = replace(project, wandb=EMBEDDED, on=LOCAL, known_backend_on=None, known_data=data)
        yield folder, connect(own), images
    finally:
        stop_backend(data)
        clear_folder(builder, *images[-1], folder)
        if folder.exists():
            tell(f"warning: not deleted, since it is another user's: {folder}")


def _make_sweep(server: Server, project: Project, request: Request) -> SweepPath:
    """Create the sweep, whose run fails at once if it fails: a second attempt shows nothing new."""
    text = build_text(request.sweep, Draws(request.draws.seed, 0))
    name = project.project_for(request.sweep.project, request.sweep.program)
    path, _ = create_sweep(server.client, text, server.viewer.entity, name, uuid.uuid4().hex)
    return path


def _build_plan(
    project: Project, target: Target, request: Request, server: Server, path: SweepPath
) -> Plan:
    told = build_environment(True, None, choose_pace(project, extended=True))
    plan = build_plan(
        str(path),
        server.url,
        str(project.code.folder),
        1,
        environment=(*told, *project.code.variables),
    )
    return add_script_check(plan, target, request)


def _describe_machine(project: Project, folder: Path) -> Machine:
    here = find_target(replace(project, on=LOCAL)).open()
    return Machine(
        folder=folder,
        name=socket.gethostname(),
        cpus=os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        gpus=len(here.list_gpus()),
        environment=project.environment,
    )


def _describe(
    builder: Builder, name: str, planned: ContainerPlan, project: Project, tell: Tell
) -> None:
    for words in build_commands(builder.name, name, planned.container):
        tell(shlex.join(words))
    lines = [*planned.left_out, *([WITHOUT_IN_BUILDAH] if builder.name == "buildah" else [])]
    for line in lines:
        tell(f"not as in the pod: {line}")
    server = "the one in the cluster" if project.embedded else project.wandb
    tell(f"not as in the pod: W&B is a backend of the rehearsal, in place of {server}")


class _Watch:
    """Reads what the server knows of the container's run."""

    def __init__(self, server: Server, plan: Plan, to_end: bool) -> None:
        [agent] = plan.agents
        self._server, self._path = server, SweepPath(*plan.sweep_path.split("/"))
        self._agent = Agent(agent.name, plan.sweep_path, "running", time.time())
        self.probe = Probe(frozenset({agent.name}), {})
        self._to_end = to_end

    def look(self, exit_code: int | None) -> bool:
        """Take in the state; return True if enough was seen."""
        now = time.time()
        agent = self._agent
        if exit_code is not None:
            agent = replace(agent, state="ended", exit_code=exit_code)
        found = get_snapshot(self._server.client, self._path)
        agents = join_runs([agent], found.runs)
        self.probe.look(summarise_status(found.sweep, found.runs, agents, 0, None, now), now)
        return exit_code is not None or (self.probe.over and not self._to_end)

    def report(self) -> Report:
        """Return what was seen, with the memory that the run's SDK has measured."""
        client = self._server.client
        report = self.probe.report(get_snapshot(client, self._path).sweep)
        if report.row is None:
            return report
        memory = get_memory(client, self._path, report.row.run_id)
        return replace(report, memory=memory, sampled=True)


def _run(
    builder: Builder, name: str, planned: ContainerPlan, watch: _Watch, tell_line: Tell
) -> Rehearsal:
    with running(builder, name, planned.container, tell_line) as process:
        while not watch.look(process.poll()):
            _wait(process)
        return Rehearsal(watch.report(), process.poll())


def _wait(process: Popen[bytes]) -> None:
    with suppress(TimeoutExpired):
        process.wait(POLL_SECONDS)
