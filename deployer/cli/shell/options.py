"""Arguments and options that several commands share, and how their values are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deployer.cli.shell.completion import complete_sweeps
from deployer.text import DURATION_HINT, parse_duration


class BadValue(typer.BadParameter):
    """A flag has a value that cannot be."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def read_duration(text: str) -> float:
    """Return the seconds of a flag such as `--timeout 90s`; raises BadValue."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise BadValue(str(error), DURATION_HINT) from error


def read_positive_duration(text: str) -> float:
    """Return the seconds of a flag that cannot be zero; raises BadValue."""
    seconds = read_duration(text)
    if not seconds:
        raise BadValue(f"'{text}' is not a positive time", DURATION_HINT)
    return seconds


SweepArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="SWEEP",
        autocompletion=complete_sweeps,
        help="ENTITY/PROJECT/SWEEP_ID, a short id or an address; "
        "default: the newest sweep started in this folder.",
    ),
]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A W&B sweep file (YAML).")]
ReplicasOption = Annotated[
    int | None,
    typer.Option(
        "--replicas", metavar="N", envvar="DEPLOYER_REPLICAS", min=1, help="Number of agents."
    ),
]
OneRunOption = Annotated[
    bool,
    typer.Option(
        "--one-run-per-job",
        help="Start one agent per remaining run; each ends after its run. "
        "--replicas limits how many agents run at a time.",
    ),
]
MOST_PACKED = 128  # agents on one machine
PackingOption = Annotated[
    int | None,
    typer.Option(
        "--packing",
        metavar="K",
        min=1,
        max=MOST_PACKED,
        help="Agents per GPU (per machine without one, per pod on a cluster).",
    ),
]
MaxTimeOption = Annotated[
    float | None,
    typer.Option(
        "--max-time",
        metavar="DURATION",
        parser=read_positive_duration,
        help="End agents after this time, such as 6h, even if no `up` or `watch` is running; "
        "other agents repeat their runs.",
    ),
]
PendingTimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--pending-timeout",
        metavar="DURATION",
        parser=read_positive_duration,
        help="How long to wait for the first agent to start, such as 30m. Then, or on an "
        "error that waiting cannot fix, `deployer` ends your agents and exits with 3.",
    ),
]
CapacityOption = Annotated[
    float | None,
    typer.Option(
        "--wait-for-capacity",
        metavar="DURATION",
        parser=read_duration,
        help="On GKE: how long to retry while no GPUs are available, such as 2h.",
    ),
]
RunCapOption = Annotated[
    int | None, typer.Option("--run-cap", metavar="N", min=1, help="Maximum number of runs.")
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed", metavar="N", help="Make random draws repeatable; embedded backend only."
    ),
]
RetriesOption = Annotated[
    int | None,
    typer.Option(
        "--retries",
        metavar="N",
        min=0,
        help="How often to retry a failed run (default 1); embedded backend only.",
    ),
]
NoCheckOption = Annotated[
    bool,
    typer.Option("--no-check", help="Do not check that the script accepts the flags."),
]
PlainOption = Annotated[
    bool, typer.Option("--plain", help="Print lines instead of the live view; default in a pipe.")
]
DetachOption = Annotated[
    bool, typer.Option("--detach", help="Return as soon as the agents are started.")
]
DownAfterOption = Annotated[
    bool,
    typer.Option(
        "--down-after", help="At the end, delete what `up` created; with --on gke also the cluster."
    ),
]
