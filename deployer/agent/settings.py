"""What a supervisor is told when it is started, and what it tells the agent."""

import argparse
import os
from dataclasses import dataclass
from typing import Dict, List, Mapping

CLOUD_URL = "https://api.wandb.ai"
# Every process of an agent carries these two, so that its leftovers can be found by anybody.
NAME_VARIABLE = "DEPLOYER_AGENT"
FOLDER_VARIABLE = "DEPLOYER_AGENT_FOLDER"
GRACE_VARIABLE = "DEPLOYER_AGENT_GRACE_SECONDS"
GRACE_SECONDS = 30.0

# The stock agent's breakers count wrongly (deaths by signal reset them) and end with code 0.
BREAKERS_OFF = {
    "WANDB_AGENT_DISABLE_FLAPPING": "true",
    "WANDB_AGENT_MAX_INITIAL_FAILURES": "1000000000",
}
# After an outage the SDK would come back up to 60 s late; the counts grow as the waits shrink.
DEFAULTS = {
    "WANDB_X_GRAPHQL_RETRY_WAIT_MAX_SECONDS": "5",
    "WANDB_X_GRAPHQL_RETRY_MAX": "200",
    "WANDB_X_FILE_STREAM_RETRY_WAIT_MAX_SECONDS": "5",
    "WANDB_X_FILE_STREAM_RETRY_MAX": "100000",
    "WANDB_X_FILE_TRANSFER_RETRY_WAIT_MAX_SECONDS": "5",
    "WANDB_X_FILE_TRANSFER_RETRY_MAX": "200",
    "WANDB_ERROR_REPORTING": "false",
    "PYTHONUNBUFFERED": "1",
}
# Left over when `deployer` itself is run inside a run.
NOT_INHERITED = ("WANDB_RUN_ID", "WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH", "WANDB_SERVICE")


@dataclass(frozen=True)
class Settings:
    """One supervisor's task. The key is not in here: it stays in the environment."""

    sweep_path: str
    base_url: str
    name: str
    folder: str
    grace_seconds: float = GRACE_SECONDS
    detach: bool = False

    @property
    def log_path(self) -> str:
        """Where the agent and its runs write."""
        return os.path.join(self.folder, "log")

    @property
    def status_path(self) -> str:
        """Where the supervisor says how it is."""
        return os.path.join(self.folder, "status.json")

    @property
    def lock_path(self) -> str:
        """The file that a living supervisor holds locked."""
        return os.path.join(self.folder, "lock")


def parse_settings(arguments: List[str], environment: Mapping[str, str]) -> Settings:
    """Read flags, with the environment as their defaults; exits 2 with usage if they are wrong."""
    parser = argparse.ArgumentParser(
        prog="deployer.agent",
        description="Run one `wandb agent` on a sweep. The key comes in WANDB_API_KEY.",
    )
    name = environment.get(NAME_VARIABLE, "agent")
    parser.add_argument("sweep_path", metavar="ENTITY/PROJECT/SWEEP_ID")
    parser.add_argument("--name", default=name)
    parser.add_argument("--folder", default=environment.get(FOLDER_VARIABLE))
    parser.add_argument(
        "--grace-seconds", type=float, default=environment.get(GRACE_VARIABLE, GRACE_SECONDS)
    )
    parser.add_argument("--detach", action="store_true", help="leave the terminal, log to a file")
    given = parser.parse_args(arguments)
    return Settings(
        sweep_path=given.sweep_path,
        base_url=(environment.get("WANDB_BASE_URL") or CLOUD_URL).rstrip("/"),
        name=given.name,
        folder=os.path.abspath(given.folder or f".deployer-agent-{given.name}"),
        grace_seconds=given.grace_seconds,
        detach=given.detach,
    )


def agent_environment(settings: Settings, environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment of the `wandb agent`, which its runs inherit."""
    kept = {name: value for name, value in environment.items() if name not in NOT_INHERITED}
    return {
        **DEFAULTS,
        **kept,
        **BREAKERS_OFF,
        "WANDB_BASE_URL": settings.base_url,
        "WANDB_DIR": settings.folder,
        NAME_VARIABLE: settings.name,
        FOLDER_VARIABLE: settings.folder,
    }
