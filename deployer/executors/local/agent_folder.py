"""An agent's folder: its specification, status and log. Never a key."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import cast

from deployer.agent.exit_codes import FINISHED, STOPPED
from deployer.agent.host.death_record import (
    INTERRUPTED,
    NODE,
    OUT_OF_MEMORY,
    SIGNAL,
    judge_predecessor,
)
from deployer.agent.host.processes import (
    KILL_SECONDS,
    TERMINATE_SECONDS,
    Process,
    list_marked,
)
from deployer.agent.host.status import SupervisorStatus, is_locked, load_status
from deployer.agent.runs.delivery import SERVER_SECONDS
from deployer.agent.server import GOODBYE_SECONDS
from deployer.agent.settings import AgentSettings
from deployer.backend.server.daemon import disk_is_full
from deployer.model import Agent, AgentState, Ending

# Exit codes of an agent that is running, has finished, or was asked to stop.
GOOD_CODES = (None, FINISHED, STOPPED)
# Messages by cause of death; a stopping supervisor was killed before it could report its end.
LOST_REASONS = {
    SIGNAL: "its supervisor was killed",
    OUT_OF_MEMORY: "its supervisor was killed: out of memory",
    NODE: "its supervisor is gone, perhaps after a reboot",
    INTERRUPTED: "its supervisor was killed while it stopped",
}


@dataclass(frozen=True)
class AgentSpec:
    """An agent's start parameters; `created_at` is in seconds since the epoch.

    `agents` is the number of agents of its sweep, `on_gpu` of those on its GPU.
    """

    name: str
    sweep_path: str
    base_url: str
    working_folder: str
    gpus: tuple[str, ...]
    environment: dict[str, str]
    grace_seconds: float
    created_at: float
    agents: int = 1
    on_gpu: int = 1


@dataclass(frozen=True)
class AgentFolder:
    """The local folder of one agent."""

    path: Path
    spec: AgentSpec

    @property
    def settings(self) -> AgentSettings:
        """The supervisor's settings, which define the names of the files."""
        return AgentSettings(
            sweep_path=self.spec.sweep_path,
            base_url=self.spec.base_url,
            name=self.spec.name,
            folder=str(self.path),
            grace_seconds=self.spec.grace_seconds,
            detach=True,
        )

    @property
    def log_path(self) -> Path:
        return Path(self.settings.log_path)

    def is_alive(self) -> bool:
        return is_locked(self.settings.lock_path)

    def status(self) -> SupervisorStatus | None:
        """Return the supervisor's last status; None if it never reported one."""
        return load_status(self.settings.status_path)

    def processes(self) -> list[Process]:
        return list_marked(str(self.path))

    def save_spec(self) -> None:
        """Save the specification, and delete the status of the agent's previous life."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        Path(self.settings.status_path).unlink(missing_ok=True)
        temporary = self.path / "spec.json.new"
        temporary.write_text(json.dumps(asdict(self.spec), indent=2))
        os.replace(temporary, self.path / "spec.json")

    def agent(self) -> Agent:
        # Check first: a supervisor reports its end before it releases the lock.
        alive = self.is_alive()
        status = self.status()
        if status is None:
            state = "starting" if alive else "lost"
        else:
            state = status.state if alive or status.state == "ended" else "lost"
        lost = self._why_lost() if state == "lost" else ""
        reason = lost or (status.reason if status else "")
        failed = state == "lost" or (status is not None and status.exit_code not in GOOD_CODES)
        if failed and disk_is_full(self.path):
            reason = "; ".join(filter(None, (f"the disk of {self.path} is full", reason)))
        return Agent(
            name=self.spec.name,
            sweep_path=self.spec.sweep_path,
            state=cast(AgentState, state),
            started_at=status.started_at if status else self.spec.created_at,
            ended_at=status.ended_at if status else None,
            exit_code=status.exit_code if status else None,
            ending=Ending.DRAINED if status and status.drained and state == "ended" else None,
            reason=reason,
            run_id=status.run_id if status and state != "lost" else None,
            gpu=",".join(self.spec.gpus),
            run_start=status.run_start if status else "",
            node=platform.node(),
            folder=self.spec.working_folder,
            process_id=status.process_id if status and alive else None,
            environment=self.spec.environment,
            stop_seconds=self.longest_end_seconds,
        )

    @property
    def longest_end_seconds(self) -> float:
        """Return the maximum time from telling the supervisor to stop until it is killed."""
        ours = 2 * SERVER_SECONDS + 2 * TERMINATE_SECONDS + KILL_SECONDS + GOODBYE_SECONDS
        return self.spec.grace_seconds + ours

    def _why_lost(self) -> str:
        return LOST_REASONS[judge_predecessor(self.settings.death_record_path)]


def load_folder(path: Path) -> AgentFolder | None:
    """Read one agent's folder; None if its spec is missing or invalid."""
    try:
        content = json.loads((path / "spec.json").read_text())
        known = {
            field.name: content[field.name] for field in fields(AgentSpec) if field.name in content
        }
        return AgentFolder(path, AgentSpec(**{**known, "gpus": tuple(content["gpus"])}))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def load_folders(path: Path) -> list[AgentFolder]:
    found = [load_folder(child) for child in path.iterdir()] if path.is_dir() else []
    folders = [folder for folder in found if folder]
    return sorted(folders, key=lambda folder: (folder.spec.created_at, folder.spec.name))
