"""A supervisor's settings: its flags, and the environment variables for their defaults."""

import argparse
import math
import os
from dataclasses import dataclass
from typing import List, Mapping, Tuple

from .addresses import CLOUD_URL

# In the environment of every process of an agent, so that its orphans can be found.
NAME_VARIABLE = "DEPLOYER_AGENT"
FOLDER_VARIABLE = "DEPLOYER_AGENT_FOLDER"
# The parent folder of a sweep's agents. A container sets this one, since all of its processes
# inherit its environment: with an agent's folder, a hook or another agent would count as an orphan.
AGENTS_FOLDER_VARIABLE = "DEPLOYER_AGENTS_FOLDER"
SWEEP_PATH_VARIABLE = "DEPLOYER_SWEEP_PATH"
GRACE_VARIABLE = "DEPLOYER_AGENT_GRACE_SECONDS"
GRACE_SECONDS = 30.0
# How long an ended run may hold its GPU while the server is unreachable. SDKs without this setting,
# such as 0.24, wait forever.
FINISH_TIMEOUT_VARIABLE = "DEPLOYER_AGENT_FINISH_TIMEOUT_SECONDS"
FINISH_TIMEOUT_SECONDS = 600.0
# For the run's prologue: the folders of all runs' checkpoints and outputs. START_VARIABLE is the
# supervisor's start to which an attempt belongs.
CHECKPOINTS_VARIABLE = "DEPLOYER_CHECKPOINT_ROOT"
OUTPUTS_VARIABLE = "DEPLOYER_OUTPUT_ROOT"
# Where to store outputs when a run ends: empty for nowhere, since their folder is kept; `wandb` for
# an artifact of the run.
KEEP_VARIABLE = "DEPLOYER_OUTPUT_KEEP"
KEPT_BY_WANDB = "wandb"
START_VARIABLE = "DEPLOYER_AGENT_START"
KEY_VARIABLE = "WANDB_API_KEY"
# The SDK's other login: a file with a JWT. The SDK refuses both at once.
TOKEN_FILE_VARIABLE = "WANDB_IDENTITY_TOKEN_FILE"
# A file with the key; each agent of a pod has its own.
KEY_FILE_VARIABLE = "DEPLOYER_KEY_FILE"
# With 1, an agent exits after one run and frees its GPU: one Job for each run.
COUNT_VARIABLE = "DEPLOYER_AGENT_COUNT"
# When an agent interrupts its run and exits, in seconds since the epoch, even without a watcher.
DEADLINE_VARIABLE = "DEPLOYER_AGENT_DEADLINE"
# How the agent waits for its run: until it ends, or W&B's 5 s, which respect its rate limits.
POLLS_VARIABLE = "DEPLOYER_AGENT_POLLS"
QUICK = "quick"
STOCK = "stock"
# With 1, runs are forked from a parent that has preloaded their imports; more words are additional
# packages to preload.
WARM_VARIABLE = "DEPLOYER_AGENT_WARM"
# Which numbers of a script's output are metrics, as JSON (metrics/spec.py); empty if the script
# logs them itself. If set, exit code 0 is success, even without metrics.
METRICS_VARIABLE = "DEPLOYER_METRICS"
# With 1, each run works in its own folder (prologue/deployer_folder.py).
ISOLATE_VARIABLE = "DEPLOYER_ISOLATE"
# A file for the reason of the end: a container's termination log, which the kubelet reports.
LAST_WORDS_VARIABLE = "DEPLOYER_TERMINATION_LOG"
# The node of the agent's pod, which the server's page shows.
NODE_VARIABLE = "DEPLOYER_NODE"


@dataclass(frozen=True)
class AgentSettings:
    """One supervisor's settings, without the key, which stays in the environment.

    `count` is the maximum number of runs, 0 for no limit. At `deadline`, in seconds since the
    epoch, the agent stops as if asked to; infinite for never. A `quick` agent notices the end of
    its run at once, others within 5 s like W&B's. A `warm` one forks its runs; `warm_packages` are
    preloaded in addition to its own list. With `metrics`, a wrapper reads metrics from its runs'
    output. `last_words_path` is the file for the reason of its end, empty for none. `node` is its
    pod's node, empty without a pod.
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
        """The record that tells a successor why this supervisor died."""
        return os.path.join(self.folder, "witness.json")

    @property
    def lock_path(self) -> str:
        """The file that a living supervisor holds locked."""
        return os.path.join(self.folder, "lock")


def parse_warm(text: str) -> Tuple[bool, Tuple[str, ...]]:
    """Parse WARM_VARIABLE: whether to fork runs, and additional packages to preload."""
    first, *packages = text.split() or [""]
    return (True, tuple(packages)) if first == "1" else (False, ())


def parse_settings(arguments: List[str], environment: Mapping[str, str]) -> AgentSettings:
    """Parse flags, with defaults from the environment; exit 2 with usage if invalid."""
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
