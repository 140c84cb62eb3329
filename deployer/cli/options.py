"""Options that several commands share, and the config that they make."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from deployer.config.settings import Config, Flags, load_config
from deployer.errors import ConfigError
from deployer.executors.registry import open_executor
from deployer.launch.resolution import Choice, choose_sweep, open_sweep, settle_executor
from deployer.wandb_api.model import SweepPath

SweepArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[SWEEP]",
        help="ENTITY/PROJECT/SWEEP_ID, a short id or an address; "
        "left out: the newest made from this folder.",
    ),
]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A W&B sweep file (YAML).")]
WandbOption = Annotated[
    str | None,
    typer.Option("--wandb", envvar="DEPLOYER_WANDB", help="`embedded`, or a W&B server's address."),
]
EntityOption = Annotated[str | None, typer.Option("--entity", help="Whose sweep: user or team.")]
ProjectOption = Annotated[str | None, typer.Option("--project", help="The sweep's project.")]
OnOption = Annotated[
    str | None,
    typer.Option(
        "--on",
        envvar="DEPLOYER_ON",
        help="local, kubernetes or gke; left out: where the sweep's agents are, else local.",
    ),
]
ReplicasOption = Annotated[
    int | None,
    typer.Option("--replicas", envvar="DEPLOYER_REPLICAS", min=1, help="How many agents in all."),
]
OneRunOption = Annotated[
    bool,
    typer.Option(
        "--one-run-per-job",
        help="An agent for each run that is left, which leaves after it; "
        "--replicas bounds how many are there at a time.",
    ),
]
MaxHoursOption = Annotated[
    float | None,
    typer.Option(
        "--max-hours",
        min=0.001,
        help="Agents leave after this time, watched or not; their runs are handed out again.",
    ),
]
CapacityOption = Annotated[
    str | None,
    typer.Option(
        "--wait-for-capacity",
        metavar="TIME",
        help="With a GKE cluster: how long to ask again where all is out of stock, such as 2h.",
    ),
]
RunCapOption = Annotated[
    int | None, typer.Option("--run-cap", min=1, help="At most this many runs.")
]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", help="Repeatable draws; on the embedded backend only."),
]
RetriesOption = Annotated[
    int | None,
    typer.Option(
        "--retries",
        min=0,
        help="More attempts for a run that fails by itself (1); on the embedded backend only.",
    ),
]
PlainOption = Annotated[bool, typer.Option("--wait", help="Plain lines, no live view.")]
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
OutputOption = Annotated[str, typer.Option("--output", "-o", help="table or json.")]
RankingOption = Annotated[str, typer.Option("--output", "-o", help="table, json or csv.")]


def read_duration(text: str | None, flag: str = "--wait-for-capacity") -> float:
    """Return the seconds of a time such as `90s`, `30m`, `2h` or `1d`, 0 for None.

    Raises ConfigError.
    """
    if text is None:
        return 0.0
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    if found is None:
        raise ConfigError(flag, f"'{text}' is not a time", "write 90s, 30m, 2h or 1d")
    return float(found.group(1)) * SECONDS[found.group(2)]


def read_config(flags: Flags) -> Config:
    """Return the config for the current folder: flags, environment and `deployer.yaml`."""
    return load_config(flags, os.environ, Path.cwd())


def read_config_of(sweep: str | None, flags: Flags) -> Config:
    """Return the config for a sweep that is there: its agents are where they were started."""
    return settle_executor(sweep, read_config(flags))


def pick_sweep(text: str | None, config: Config) -> Choice:
    """Return the sweep that is meant; a short id may be that of any agent's sweep."""
    return choose_sweep(text, config, _paths_of_agents(config.on))


def find_path(text: str | None, config: Config) -> SweepPath:
    """Return the sweep's path, asking a server only for what cannot be known without it."""
    choice = pick_sweep(text, config)
    return choice.path() if choice.complete else open_sweep(choice)[1]


def choose_bound(config: Config, one_run: bool) -> int | None:
    """Return how many agents there shall be; None for what was there, or one for each run.

    A cluster queues what does not fit now, and this machine does not.
    """
    return config.replicas if one_run and config.on == "local" else config.given_replicas


def _paths_of_agents(on: str) -> Iterator[str]:
    """Yield the sweeps of agents; a place is only looked at when somebody asks."""
    yield from (agent.sweep_path for agent in open_executor(on).list_agents())


def check_output(output: str, *allowed: str) -> str:
    """Return the output format if the command has it; raises ConfigError."""
    allowed = allowed or ("table", "json")
    if output not in allowed:
        raise ConfigError(
            "--output", f"'{output}' is not a format", f"one of: {', '.join(allowed)}"
        )
    return output
