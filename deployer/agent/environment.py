"""The command of a supervisor's `wandb agent`, and its environment, which runs inherit."""

from __future__ import annotations

import contextlib
import os
import sys
import uuid
from typing import Dict, List, Mapping

from .addresses import address_for
from .metric_lines import add_metric
from .network import build_reach
from .settings import (
    AGENTS_FOLDER_VARIABLE,
    CHECKPOINTS_VARIABLE,
    COUNT_VARIABLE,
    DEADLINE_VARIABLE,
    FOLDER_VARIABLE,
    GRACE_VARIABLE,
    KEY_FILE_VARIABLE,
    KEY_VARIABLE,
    LAST_WORDS_VARIABLE,
    METRICS_VARIABLE,
    NAME_VARIABLE,
    OUTPUTS_VARIABLE,
    POLLS_VARIABLE,
    START_VARIABLE,
    SWEEP_PATH_VARIABLE,
    TOKEN_FILE_VARIABLE,
    WARM_VARIABLE,
    AgentSettings,
)
from .wandb_install import get_wandb_version, has_wandb

# The stock agent's breakers count wrongly (deaths by signal reset them) and end with code 0.
BREAKERS_OFF = {
    "WANDB_AGENT_DISABLE_FLAPPING": "true",
    "WANDB_AGENT_MAX_INITIAL_FAILURES": "1000000000",
}
# After an outage the SDK would resume up to 60 s late. Shorter waits need more retries.
SDK_DEFAULTS = {
    "WANDB_X_GRAPHQL_RETRY_WAIT_MAX_SECONDS": "5",
    "WANDB_X_GRAPHQL_RETRY_MAX": "200",
    "WANDB_X_FILE_STREAM_RETRY_WAIT_MAX_SECONDS": "5",
    "WANDB_X_FILE_STREAM_RETRY_MAX": "100000",
    "WANDB_X_FILE_TRANSFER_RETRY_WAIT_MAX_SECONDS": "5",
    "WANDB_X_FILE_TRANSFER_RETRY_MAX": "200",
    # Send history every 5 s instead of 15, and write it to the local file almost at once instead of
    # every 15 s, so that a killed trainer leaves what it logged. SDKs ignore unknown settings (0.24
    # has only the first, so a kill loses up to 5 s of history). 1 ms costs 1.8 % of a core. At
    # 10 ms, 3 of 14 kills of wandb-core or of all processes lost the last row of a trainer with
    # steps and checkpoints every 50 ms; at 1 ms none of 17 did.
    "WANDB_X_FILE_STREAM_TRANSMIT_INTERVAL": "5",
    "WANDB_X_TRANSACTION_LOG_FLUSH_INTERVAL": "0.001",
    "WANDB_ERROR_REPORTING": "false",
    "PYTHONUNBUFFERED": "1",
}
# Set if `deployer` itself runs inside a run.
NOT_INHERITED = (
    "WANDB_RUN_ID",
    "WANDB_SWEEP_ID",
    "WANDB_SWEEP_PARAM_PATH",
    "WANDB_SERVICE",
    AGENTS_FOLDER_VARIABLE,
    COUNT_VARIABLE,
    DEADLINE_VARIABLE,
    GRACE_VARIABLE,
    KEY_FILE_VARIABLE,
    LAST_WORDS_VARIABLE,
    METRICS_VARIABLE,
    POLLS_VARIABLE,
    SWEEP_PATH_VARIABLE,
    WARM_VARIABLE,
    "DEPLOYER_RUN_PROLOGUE",
    "DEPLOYER_CHECKPOINT_DIR",
    "DEPLOYER_OUTPUT_DIR",
)
# So a metric is on the server within 5 s of its line, including the SDK's own delay.
METRICS_DEFAULTS = {"WANDB_X_FILE_STREAM_TRANSMIT_INTERVAL": "3"}
# The address of W&B's cloud for runs with an older SDK than the agent's: prologue/deployer_sdk.py.
OLD_URL_VARIABLE, BEFORE_FORGE = "DEPLOYER_OLD_BASE_URL", "0.30"
PACKAGE = os.path.dirname(os.path.abspath(__file__))
PROLOGUE = os.path.join(PACKAGE, "prologue")
CPU_LIMIT = "/sys/fs/cgroup/cpu.max"  # of a pod's own control group, version 2
GPU_SHARE = 0.9  # the rest is memory outside of the frameworks' pools


def find_missing(settings: AgentSettings, key: str) -> str:
    """Return a configuration error that makes every start fail; empty if there is none."""
    if settings.sweep_path.count("/") != 2:
        return f"{settings.sweep_path!r} is not ENTITY/PROJECT/SWEEP_ID"
    if not settings.base_url.startswith(("http://", "https://")):
        return f"WANDB_BASE_URL {settings.base_url!r} is not an address"
    if not (key or os.environ.get(TOKEN_FILE_VARIABLE)):
        return f"{KEY_VARIABLE} is not set"
    if not has_wandb():
        said = f"the package wandb is not installed for {sys.executable}"
        mend = "kubernetes: {install_wandb: true} in deployer.yaml, or {python: PATH} with it"
        return f"{said}: {mend}" if os.environ.get("KUBERNETES_SERVICE_HOST") else said
    return ""


def agent_command(settings: AgentSettings) -> List[str]:
    """Return the agent's command: our launcher, which runs `wandb agent`."""
    return [*_call("launcher", f"main({settings.quick})"), *agent_words(settings)]


def wrapper_command(command: List[str]) -> List[str]:
    """Wrap a run's command in the metric wrapper, with the agent's Python."""
    return [*_call("metric_wrapper", "main(sys.argv[1:])"), *command]


def isolated_command(command: List[str]) -> List[str]:
    """Wrap a run's command in the program that creates its folder, without the run's prologue."""
    call = "from deployer_folder import main; main(sys.argv[1:])"
    code = f"import sys; sys.path.insert(0, {PROLOGUE!r}); {call}"
    return [sys.executable, "-I", "-S", "-c", code, *command]


def _call(module: str, call: str) -> List[str]:
    """Return a Python command that calls a function of this package; its arguments follow."""
    folder, name = os.path.split(PACKAGE)  # possibly in a zip file
    steps = (
        f"import sys; sys.path.insert(0, {folder!r})",
        f"from {name}.{module} import main; del sys.path[0]; {call}",
    )
    # Like the command `wandb`, do not import modules from the project's folder.
    safely = ["-P"] if sys.version_info >= (3, 11) else []
    return [sys.executable, *safely, "-c", "\n".join(steps)]


def agent_words(settings: AgentSettings) -> List[str]:
    """Return wandb's command line."""
    count = ["--count", str(settings.count)] if settings.count else []
    return ["wandb", "agent", *count, settings.sweep_path]


def agent_environment(
    settings: AgentSettings, environment: Mapping[str, str], metric: str = ""
) -> Dict[str, str]:
    """Return the environment of the `wandb agent`, which its runs inherit.

    `metric` is the sweep's, empty if it has none.
    """
    other_login = TOKEN_FILE_VARIABLE if environment.get(KEY_VARIABLE) else KEY_VARIABLE
    left_out = (*NOT_INHERITED, other_login)
    kept = {name: value for name, value in environment.items() if name not in left_out}
    own_path = environment.get("PYTHONPATH")
    metrics = add_metric(settings.metrics, metric)
    url, older = settings.base_url, address_for(settings.base_url, BEFORE_FORGE)
    return {
        **SDK_DEFAULTS,
        **(METRICS_DEFAULTS if metrics else {}),
        "WANDB_FINISH_TIMEOUT": str(settings.finish_timeout_seconds),
        **kept,
        **build_reach(kept),
        "PYTHONPATH": os.pathsep.join([PROLOGUE, own_path] if own_path else [PROLOGUE]),
        CHECKPOINTS_VARIABLE: settings.checkpoints,
        OUTPUTS_VARIABLE: settings.outputs,
        START_VARIABLE: f"{settings.name} {uuid.uuid4().hex}",
        **({METRICS_VARIABLE: metrics} if metrics else {}),
        **BREAKERS_OFF,
        "WANDB_BASE_URL": url if older == url else address_for(url, get_wandb_version()),
        **({OLD_URL_VARIABLE: older} if older != url else {}),
        "WANDB_DIR": settings.folder,
        NAME_VARIABLE: settings.name,
        FOLDER_VARIABLE: settings.folder,
    }


def divide(cpus: int, agents: int, on_gpu: int) -> Dict[str, str]:
    """Return default variables that limit one of `agents` to its share.

    `on_gpu` of them share its GPU. Limits threads, since each library would start one per CPU, and
    GPU memory, since JAX and TensorFlow would allocate almost all of it at once.
    """
    threads = str(max(1, cpus // agents))
    return {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{GPU_SHARE / on_gpu:.3f}",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }


def count_cpus(limit_path: str = CPU_LIMIT) -> int:
    """Return how many CPUs this process may use, by its affinity and control group."""
    count = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError), open(limit_path, encoding="utf-8") as file:
        quota, period = file.read().split()
        count = min(count, max(1, int(quota) // int(period)))  # `max` without a limit
    return count
