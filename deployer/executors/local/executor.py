"""Agents on this machine: a folder, a supervisor and a log each, and the wanted numbers."""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from deployer.agent.host.status import FULL, describe, find_obstacle, is_unwritable
from deployer.agent.settings import GRACE_SECONDS
from deployer.config import paths
from deployer.config.data import VARIABLE
from deployer.config.document import MOST_REPLICAS
from deployer.config.project import Project
from deployer.errors import AgentError, Finding, collect_refusals
from deployer.executors.base import (
    Check,
    DataPlaces,
    Demand,
    Description,
    Executor,
    WantedNumbers,
    examine_all,
    run_checks,
)
from deployer.executors.local.agent_folder import AgentFolder, AgentSpec, load_folder, load_folders
from deployer.executors.local.examination import list_python_checks
from deployer.executors.local.run_environment import (
    build_run_environment,
    choose_interpreter,
    find_variables,
    list_dropped,
)
from deployer.executors.local.supervisors import (
    await_exit,
    end_agent,
    list_gpus,
    signal_supervisor,
    start_supervisor,
)
from deployer.model import Agent, AgentPlan, Plan, Wanted
from deployer.scripts.missing_modules import CHOOSE

if TYPE_CHECKING:
    from deployer.config.data import DataSet
    from deployer.data.store import Store


SUFFIX = ".wanted"
POLL_SECONDS = 0.2
CHUNK_BYTES = 1 << 20
LOG = logging.getLogger(__name__)
STARTS_AT_ONCE = 8  # each starts a Python


def find_file(agents_folder: Path, sweep_path: str) -> Path:
    """Return the file of a sweep; the hash separates equal ids of different projects."""
    told_apart = hashlib.sha256(sweep_path.encode()).hexdigest()[:8]
    sweep_id = quote(sweep_path.rpartition("/")[2], safe="")
    return agents_folder / f"{sweep_id}-{told_apart}{SUFFIX}"


def load_wanted(file: Path, sweep_path: str) -> Wanted | None:
    """Read a wanted number; None if there is none. Raises AgentError if it is unreadable."""
    try:
        content = json.loads(file.read_text())
        number, leaving = content["number"], content["leaving"]
        fits = type(number) is int and 0 <= number <= MOST_REPLICAS
        if not (fits and isinstance(leaving, list)):
            raise ValueError(f"{number!r}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        said = f"{file} does not contain a number of agents: {error}"
        raise AgentError(said, f"deployer agents up {sweep_path} --replicas N") from error
    return Wanted(number, frozenset(map(str, leaving)))


def save_wanted(file: Path, wanted: Wanted) -> None:
    content = {"number": wanted.number, "leaving": sorted(wanted.leaving)}
    temporary = file.with_name(f"{file.name}.new")
    temporary.write_text(json.dumps(content))
    os.replace(temporary, file)


def delete_wanted(file: Path) -> None:
    """Delete a wanted number, including a half-written file."""
    for one in (file, file.with_name(f"{file.name}.new")):
        one.unlink(missing_ok=True)


class _Tail:
    """One log file, which may not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def read_lines(self) -> Iterator[str]:
        """Yield the lines that have been completed since the last call."""
        while chunk := self._read():
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                yield _text(line)

    def read_rest(self) -> Iterator[str]:
        """Yield the remaining lines, including an unfinished last one; the writer has ended."""
        yield from self.read_lines()
        if self._rest:
            yield _text(self._rest)
            self._rest = b""

    def _read(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                chunk = file.read(CHUNK_BYTES)
        except FileNotFoundError:
            return b""
        self._offset += len(chunk)
        return chunk


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")


def follow_lines(folders: Sequence[AgentFolder], follow: bool) -> Iterator[tuple[str, str]]:
    """Yield (agent name, line) of several logs; with `follow`, until all agents have ended."""
    going = [(folder, _Tail(folder.log_path)) for folder in folders]
    while going:
        ended = []
        for folder, tail in going:
            # Ask before reading, so that everything an agent wrote before its end is read.
            goes_on = follow and folder.is_alive()
            for line in tail.read_lines() if goes_on else tail.read_rest():
                yield folder.spec.name, line
            if not goes_on:
                ended.append(tail)
        going = [(folder, tail) for folder, tail in going if tail not in ended]
        if going:
            time.sleep(POLL_SECONDS)


class AgentsFolder:
    """The folder of local agents, which one command at a time changes."""

    @cached_property
    def path(self) -> Path:
        return paths.agents_folder()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock for starting or deleting agents; other commands wait."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                yield
            finally:
                os.close(handle)
        except OSError as error:
            if not is_unwritable(error):
                raise
            raise self._build_unwritable(describe(self.path, error)) from error

    def check(self) -> None:
        """Raise AgentError while the folder cannot be written."""
        if obstacle := find_obstacle(str(self.path)):
            raise self._build_unwritable(obstacle)

    def _build_unwritable(self, said: str) -> AgentError:
        return AgentError(said, f"ls -ld {self.path}; findmnt -T {self.path}", passing=True)


class WantedFiles(WantedNumbers):
    """A file for each sweep, next to its agents' folders."""

    def __init__(self, folder: AgentsFolder) -> None:
        self._folder = folder

    def get(self, sweep_path: str) -> Wanted | None:
        """Return the number; None after the agents are taken down.

        Raises AgentError if the file cannot be read.
        """
        return load_wanted(find_file(self._folder.path, sweep_path), sweep_path)

    def change(self, sweep_path: str, change: Callable[[Wanted | None], Wanted | None]) -> None:
        """Replace the number by what `change` returns; None leaves it unchanged."""
        file = find_file(self._folder.path, sweep_path)
        with self._folder.alone():
            before = None
            with suppress(AgentError):  # an unreadable file is replaced
                before = load_wanted(file, sweep_path)
            wanted = change(before)
            if wanted is None or wanted == before:
                return
            try:
                save_wanted(file, wanted)
            except OSError as error:
                if error.errno not in FULL or not before or wanted.number >= before.number:
                    raise
                # With the old number, dismissed agents would be started again once there is room.
                delete_wanted(file)
                LOG.warning("the disk is full: agents restart only after `agents up`")

    def withdraw(self, sweep_path: str | None = None, *, everyone: bool = False) -> None:
        with self._folder.alone():
            every = [*self._folder.path.glob(f"*{SUFFIX}")]
            one = [find_file(self._folder.path, sweep_path)] if sweep_path is not None else every
            for file in one:
                delete_wanted(file)


class ProjectData(DataPlaces):
    """Data sets in local folders."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def open(self, data: DataSet, size_bytes: int | None = None) -> Store:
        from deployer.data.folder_store import FolderStore
        from deployer.data.sources import find_place

        # Runs may follow every link, because no copy loses them.
        return FolderStore(find_place(data, self._project.folder), links_out=True)

    def check(self) -> None:
        """Refuse data sets that are missing or incomplete; raises DeployerError."""
        if self._project.data:
            from deployer.data.sources import check_here

            with collect_refusals() as refusals:
                for data in self._project.data:
                    with refusals.noted():
                        check_here(data, self._project.folder)


class LocalExecutor(Executor):
    """Agents as local processes, found by their folders from any shell."""

    runs_here = True
    grace_seconds = GRACE_SECONDS

    def __init__(self, name: str, project: Project) -> None:
        super().__init__(name, project)
        self._folder = AgentsFolder()
        self.wanted = WantedFiles(self._folder)
        self.data = ProjectData(project)
        self._obstacle = ""

    @property
    def gpus(self) -> Sequence[str]:
        return list_gpus(self.project.environment)

    @cached_property
    def _variables(self) -> Mapping[str, str]:
        return dict(find_variables(self.project))

    @property
    def run_environment(self) -> Mapping[str, str]:
        return {**build_run_environment(self.project), **self._variables}

    def describe_runs(self, plan: Plan) -> Description:
        """Report the Python of the runs, and the W&B settings that they do not get.

        Deployer's own Python lacks the packages of scripts.
        """
        chosen, dropped = choose_interpreter(self.project), list_dropped(self.project)
        named = f"{chosen.path} ({chosen.reason})"
        lines = [] if chosen.is_own else [f"Python of the runs: {named}"]
        lines += [f"runs do not get {', '.join(dropped)}"] if dropped else []
        own = f"runs use the Python of deployer itself: {named}; {CHOOSE}"
        return Description(tuple(lines), (own,) if chosen.is_own else ())

    def list_checks(self, plan: Plan) -> Sequence[Check]:
        """Return checks that supervisors can run here and write to our folder."""
        fine = "is writable for agents"
        return (
            Check("system", sys.platform, _check_system, "agents can run on this system"),
            Check("state-folder", str(self._folder.path), self._folder.check, fine),
        )

    def examine(self, demand: Demand) -> Sequence[Finding]:
        """Return the findings about this system and the Python of its runs."""
        python = Check("python", "python", lambda: self._examine_python(demand.script))
        return examine_all([*self.list_checks(demand.plan), python])

    def _examine_python(self, script: Path | None) -> Sequence[Finding]:
        chosen = choose_interpreter(self.project)
        return examine_all(
            list_python_checks(chosen, self.run_environment, script, self.project.folder)
        )

    def apply(self, plan: Plan, api_keys: dict[str, str]) -> Sequence[Agent]:
        """Start the plan's agents that are not alive yet, and return the started agents.

        `api_keys` maps agent name to key.
        """
        run_checks(self.list_checks(plan))
        environment = build_run_environment(self.project)
        with self._folder.alone():
            folders = [
                AgentFolder(self._folder.path / a.name, self._build_spec(plan, a))
                for a in plan.agents
            ]
            missing = [folder for folder in folders if not folder.is_alive()]
            with ThreadPoolExecutor(max_workers=STARTS_AT_ONCE) as pool:
                list(pool.map(lambda one: self._start(one, api_keys, environment), missing))
        return [folder.agent() for folder in missing]

    def list_agents(self, sweep_path: str | None = None) -> Sequence[Agent]:
        """Return agents, oldest first; of one sweep, or of all."""
        return [folder.agent() for folder in self._folders(sweep_path)]

    def drain(self, names: Sequence[str]) -> None:
        """Let each agent's current run end, then let the agent leave."""
        for folder in [self._find(name) for name in names]:
            signal_supervisor(folder, signal.SIGUSR1)

    def stop(self, names: Sequence[str]) -> Sequence[str]:
        """Interrupt agents and wait until they are gone; return those that were alive."""
        folders = [self._find(name) for name in names]
        for folder in folders:
            signal_supervisor(folder, signal.SIGTERM)
        with ThreadPoolExecutor(max_workers=max(1, len(folders))) as pool:
            ended = pool.map(lambda folder: end_agent(folder, self.project.environment), folders)
            were_alive = list(ended)
        return [f.spec.name for f, was_alive in zip(folders, were_alive, strict=True) if was_alive]

    def heal(self, agents: Sequence[Agent]) -> Sequence[str]:
        """Report when the state folder becomes unwritable, and when it is writable again."""
        obstacle, self._obstacle = self._obstacle, find_obstacle(str(self._folder.path))
        if obstacle == self._obstacle:
            return ()
        again = f"{self._folder.path} is writable again"
        return (f"waiting: {self._obstacle}" if self._obstacle else again,)

    def forget(self, sweep_path: str | None = None, *, everyone: bool = False) -> bool:
        """Delete records and logs of agents that have ended; False if there were none."""
        with self._folder.alone():
            # Leftover processes are found by the folder.
            folders = self._folders(sweep_path)
            for folder in folders:
                await_exit(folder)
            ended = [one for one in folders if not one.is_alive() and not one.processes()]
            for folder in ended:
                shutil.rmtree(folder.path)
        return bool(ended)

    def log_lines(self, names: Sequence[str], follow: bool) -> Iterator[tuple[str, str]]:
        """Yield (agent name, line) in order of arrival; with `follow`, until all have ended."""
        return follow_lines([self._find(name) for name in names], follow)

    def _start(
        self, folder: AgentFolder, api_keys: dict[str, str], environment: Mapping[str, str]
    ) -> None:
        key = api_keys.get(folder.spec.name)
        if key is None:
            raise AgentError(f"agent {folder.spec.name} has just ended", "type the command again")
        # The new supervisor removes its predecessor's remains, because it has the newer key.
        folder.save_spec()
        start_supervisor(folder, key, environment)

    def _folders(self, sweep_path: str | None) -> list[AgentFolder]:
        return [
            f for f in load_folders(self._folder.path) if sweep_path in (None, f.spec.sweep_path)
        ]

    def _find(self, name: str) -> AgentFolder:
        folder = load_folder(self._folder.path / name)
        if folder is None:
            raise AgentError(f"no agent {name} on this machine", "deployer agents list")
        return folder

    def _build_spec(self, plan: Plan, planned: AgentPlan) -> AgentSpec:
        return AgentSpec(
            name=planned.name,
            sweep_path=plan.sweep_path,
            base_url=plan.base_url,
            working_folder=plan.folder,
            gpus=planned.gpus,
            environment={**self._find_variables(plan.sweep_path), **dict(planned.environment)},
            grace_seconds=self.grace_seconds,
            created_at=time.time(),
            # Not the number in this plan: on W&B's servers, agents start one by one.
            agents=max(plan.asked, len(plan.agents)),
            on_gpu=planned.on_gpu,
        )

    def _find_variables(self, sweep_path: str) -> dict[str, str]:
        """Return the runs' variables; without deployer.yaml, those of the previous agents."""
        if self._variables:
            return dict(self._variables)
        known = [folder.spec.environment for folder in self._folders(sweep_path)]
        told = known[-1] if known else {}
        return {name: value for name, value in told.items() if name.startswith(VARIABLE)}


def _check_system() -> None:
    if not sys.platform.startswith("linux"):
        raise AgentError(
            f"agents on this machine need Linux, this is {sys.platform}",
            "run them in a cluster: --on kubernetes",
        )
