"""What a supervisor is told: its flags, and the environment variables behind them."""

import argparse
import math
import os
from dataclasses import dataclass
from typing import List, Mapping, Tuple

from .addresses import CLOUD_URL

# Every process of an agent carries these two, so that its leftovers can be found by anybody.
NAME_VARIABLE = "DEPLOYER_AGENT"
FOLDER_VARIABLE = "DEPLOYER_AGENT_FOLDER"
# Above the folders of a sweep's agents. A container has this one, since whatever is started in it
# inherits it: with the agent's own folder, a hook or another agent would be taken for a leftover.
AGENTS_FOLDER_VARIABLE = "DEPLOYER_AGENTS_FOLDER"
SWEEP_PATH_VARIABLE = "DEPLOYER_SWEEP_PATH"
GRACE_VARIABLE = "DEPLOYER_AGENT_GRACE_SECONDS"
GRACE_SECONDS = 30.0
# How long a run that has ended may hold its GPU while the server is away. SDKs that do not know
# this setting, 0.24 for one, wait without end.
FINISH_TIMEOUT_VARIABLE = "DEPLOYER_AGENT_FINISH_TIMEOUT_SECONDS"
FINISH_TIMEOUT_SECONDS = 600.0
# What the run's prologue goes by: where all runs keep their checkpoints, and which start of a
# supervisor an attempt belongs to.
CHECKPOINTS_VARIABLE = "DEPLOYER_CHECKPOINT_ROOT"
OUTPUTS_VARIABLE = "DEPLOYER_OUTPUT_ROOT"
# Where outputs go when a run ends: empty for nowhere, since their folder is kept; `wandb` for an
# artifact of the run.
KEEP_VARIABLE = "DEPLOYER_OUTPUT_KEEP"
KEPT_BY_WANDB = "wandb"
START_VARIABLE = "DEPLOYER_AGENT_START"
KEY_VARIABLE = "WANDB_API_KEY"
# The SDK's other login: a file with a JWT. It refuses both at once.
TOKEN_FILE_VARIABLE = "WANDB_IDENTITY_TOKEN_FILE"
# A file with the key; agents of one pod have one each.
KEY_FILE_VARIABLE = "DEPLOYER_KEY_FILE"
# With 1, an agent leaves after one run and its GPU is free: a Job for each run.
COUNT_VARIABLE = "DEPLOYER_AGENT_COUNT"
# When an agent leaves and interrupts its run, in seconds since the epoch, watched or not.
DEADLINE_VARIABLE = "DEPLOYER_AGENT_DEADLINE"
# How the agent waits for its run: until it ends, or W&B's own 5 s, which its servers' limits bear.
POLLS_VARIABLE = "DEPLOYER_AGENT_POLLS"
QUICK = "quick"
STOCK = "stock"
# With 1, runs are forked from a parent that has imported what they import; words beside the 1 are
# packages to preload that are not of its own list.
WARM_VARIABLE = "DEPLOYER_AGENT_WARM"
# Which numbers of a script are metrics, as JSON (metrics/spec.py); empty for one that logs them. If
# it is set, exit code 0 is success, whatever was found.
METRICS_VARIABLE = "DEPLOYER_METRICS"
# With 1, each run works in a folder of its own (prologue/deployer_folder.py).
ISOLATE_VARIABLE = "DEPLOYER_ISOLATE"
# A file for the last sentence: a container's termination log, which the kubelet passes on.
LAST_WORDS_VARIABLE = "DEPLOYER_TERMINATION_LOG"
# The node of the agent's pod, which the server's page shows.
NODE_VARIABLE = "DEPLOYER_NODE"


@dataclass(frozen=True)
class AgentSettings:
    """One supervisor's task. The key is not in here: it stays in the environment.

    `count` is how many runs the agent takes, 0 for no limit. At `deadline`, in seconds since the
    epoch, it leaves as if it were asked to; infinite for never. A `quick` agent sees the end of its
    run at once, others as W&B's own within 5 s; runs of a `warm` one are forked, with
    `warm_packages` preloaded besides its own list. With `metrics`, a wrapper reads those of its
    runs. `last_words_path` is where it writes why it has ended, if anywhere. `node` is its pod's,
    if it has one.
    """

    sweep_path: str
    base_url: str
    name: str
    folder: str
    grace_seconds: float = GRACE_SECONDS
    finish_timeout_seconds: float = FINISH_TIMEOUT_SECONDS
    checkpoints: str = ""
    outputs: str = ""
    count: int = 0
    deadline: float = math.inf
    quick: bool = False
    warm: bool = False
    warm_packages: Tuple[str, ...] = ()
    metrics: str = ""
    last_words_path: str = ""
    node: str = ""
    detach: bool = False
    clear: bool = False

    @property
    def agents_folder(self) -> str:
        return os.path.dirname(self.folder)

    @property
    def log_path(self) -> str:
        return os.path.join(self.folder, "log")

    @property
    def status_path(self) -> str:
        return os.path.join(self.folder, "status.json")

    @property
    def death_record_path(self) -> str:
        """The record by which a successor finds out why this supervisor died."""
        return os.path.join(self.folder, "witness.json")

    @property
    def lock_path(self) -> str:
        """The file that a living supervisor holds locked."""
        return os.path.join(self.folder, "lock")


def parse_warm(text: str) -> Tuple[bool, Tuple[str, ...]]:
    """Return what WARM_VARIABLE says: whether runs are forked, and what to preload besides."""
    first, *packages = text.split() or [""]
    return (True, tuple(packages)) if first == "1" else (False, ())


def parse_settings(arguments: List[str], environment: Mapping[str, str]) -> AgentSettings:
    """Read flags, with the environment as their defaults; exits 2 with usage if they are wrong."""
    given = _build_parser(environment).parse_args(arguments)
    warm, warm_packages = parse_warm(environment.get(WARM_VARIABLE, ""))
    above = environment.get(AGENTS_FOLDER_VARIABLE)
    of_pod = os.path.join(above, given.name) if above else ""
    default = of_pod or environment.get(FOLDER_VARIABLE) or f".deployer-agent-{given.name}"
    folder = os.path.abspath(given.folder or default)
    return AgentSettings(
        sweep_path=given.sweep_path,
        base_url=(environment.get("WANDB_BASE_URL") or CLOUD_URL).rstrip("/"),
        name=given.name,
        folder=folder,
        grace_seconds=given.grace_seconds,
        finish_timeout_seconds=given.finish_timeout,
        checkpoints=os.path.abspath(
            given.checkpoints or os.path.join(folder, os.pardir, "checkpoints")
        ),
        outputs=os.path.abspath(given.outputs or os.path.join(folder, os.pardir, "outputs")),
        count=given.count,
        deadline=given.deadline,
        warm=warm,
        warm_packages=warm_packages,
        metrics=environment.get(METRICS_VARIABLE, ""),
        quick=environment.get(POLLS_VARIABLE) == QUICK,
        last_words_path=environment.get(LAST_WORDS_VARIABLE, ""),
        node=environment.get(NODE_VARIABLE, ""),
        detach=given.detach,
        clear=given.clear,
    )


def _build_parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="deployer.agent",
        description=f"Run one `wandb agent` on a sweep. The key comes in {KEY_VARIABLE}.",
    )
    path = environment.get(SWEEP_PATH_VARIABLE)
    parser.add_argument(
        "sweep_path", metavar="ENTITY/PROJECT/SWEEP_ID", nargs="?" if path else None, default=path
    )
    parser.add_argument("--name", default=environment.get(NAME_VARIABLE, "agent"))
    parser.add_argument("--folder")
    parser.add_argument(
        "--grace-seconds", type=float, default=environment.get(GRACE_VARIABLE, GRACE_SECONDS)
    )
    parser.add_argument(
        "--finish-timeout",
        type=float,
        default=environment.get(FINISH_TIMEOUT_VARIABLE, FINISH_TIMEOUT_SECONDS),
        help="seconds that a run which has ended waits for a lost server",
    )
    parser.add_argument(
        "--checkpoints",
        default=environment.get(CHECKPOINTS_VARIABLE),
        help="where runs keep their checkpoints, shared by all agents",
    )
    parser.add_argument(
        "--outputs",
        default=environment.get(OUTPUTS_VARIABLE),
        help="where runs write models and other results, shared by all agents",
    )
    parser.add_argument(
        "--count",
        type=int,
        default=environment.get(COUNT_VARIABLE, 0),
        help="how many runs the agent takes before it leaves; 0: no limit",
    )
    parser.add_argument(
        "--deadline",
        type=float,
        default=environment.get(DEADLINE_VARIABLE, math.inf),
        help="when the agent leaves and its run is interrupted, in seconds since the epoch",
    )
    parser.add_argument("--detach", action="store_true", help="leave the terminal, log to a file")
    parser.add_argument(
        "--clear", action="store_true", help="only end what a supervisor that was killed has left"
    )
    return parser
