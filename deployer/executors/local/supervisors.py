"""Local supervisors: started in their own session, ended with all their processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

from deployer.agent.environment import count_cpus, divide
from deployer.agent.host.processes import (
    holds_open,
    read_variable,
    send_signal,
)
from deployer.agent.settings import (
    AGENTS_FOLDER_VARIABLE,
    CHECKPOINTS_VARIABLE,
    FOLDER_VARIABLE,
    KEEP_VARIABLE,
    NAME_VARIABLE,
    OUTPUTS_VARIABLE,
)
from deployer.config import paths
from deployer.errors import AgentError
from deployer.executors.local.agent_folder import AgentFolder, AgentSpec
from deployer.executors.local.run_environment import PROBE_SECONDS

START_SECONDS = 60.0  # a cold disk reads Python slowly
LAST_LINES = 3

# Runs on CPU share the cores: more threads only compete.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
POLL_SECONDS = 0.1
EXIT_SECONDS = 5.0  # for a Python that is exiting


def start_supervisor(folder: AgentFolder, key: str, environment: Mapping[str, str]) -> None:
    """Start a supervisor and return once it holds its lock; raises AgentError.

    It outlives this process: own session, no terminal, log in its folder.
    """
    # `-P`: a folder `deployer` in the user's project must not shadow this package.
    command = [sys.executable, "-P", "-m", "deployer.agent", folder.spec.sweep_path, "--detach"]
    with folder.log_path.open("ab") as log:
        try:
            started = subprocess.run(
                [*command, "--grace-seconds", str(folder.spec.grace_seconds)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder.spec.working_folder,
                env=build_environment(folder, key, environment),
                timeout=START_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            said = f"its supervisor has not started after {START_SECONDS:.0f} s"
            hint = "the machine may be overloaded: deployer agents up starts the missing ones"
            raise AgentError(f"cannot start agent {folder.spec.name}: {said}", hint) from error
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise AgentError(f"cannot start agent {folder.spec.name}: {reason}") from error
    if started.returncode != 0:
        said = " ".join(folder.log_path.read_text(errors="replace").splitlines()[-LAST_LINES:])
        raise AgentError(
            f"cannot start agent {folder.spec.name}: {said}", f"its log: {folder.log_path}"
        )


def build_environment(
    folder: AgentFolder, key: str, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the supervisor's environment: the caller's, then the plan's, then ours."""
    spec = folder.spec
    devices = {"CUDA_VISIBLE_DEVICES": ",".join(spec.gpus)} if spec.gpus else {}
    return {
        **_find_share(folder.spec),
        CHECKPOINTS_VARIABLE: str(paths.checkpoints_folder()),
        **environment,
        # Overrides the caller's, because `results get` searches here.
        OUTPUTS_VARIABLE: str(paths.outputs_folder()),
        KEEP_VARIABLE: "",
        **spec.environment,
        **devices,
        "WANDB_BASE_URL": spec.base_url,
        **({"WANDB_API_KEY": key} if key else {}),
        NAME_VARIABLE: spec.name,
        FOLDER_VARIABLE: str(folder.path),
        # Inside an agent's pod, the container has another value.
        AGENTS_FOLDER_VARIABLE: str(folder.path.parent),
    }


def _find_share(spec: AgentSpec) -> Mapping[str, str]:
    if not spec.gpus:
        return ONE_THREAD
    return divide(count_cpus(), spec.agents, spec.on_gpu) if spec.on_gpu > 1 else {}


def list_gpus(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the ids of the GPUs that may be used here, without importing a GPU library.

    `CUDA_VISIBLE_DEVICES` applies if it is set; as in CUDA, `-1` ends the list.
    """
    chosen = environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        names = [name.strip() for name in chosen.split(",")]
        ended = next((i for i, name in enumerate(names) if name in ("", "-1")), len(names))
        return tuple(names[:ended])
    command = shutil.which("nvidia-smi", path=environment.get("PATH"))
    if command is None:
        return ()
    try:
        answer = subprocess.run(
            [command, "-L"], capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    lines = answer.stdout.splitlines() if answer.returncode == 0 else []
    return tuple(str(n) for n, _ in enumerate(x for x in lines if x.startswith("GPU ")))


def signal_supervisor(folder: AgentFolder, number: signal.Signals) -> None:
    """Send a signal to the supervisor, if any, which is the process that holds its lock open.

    Its status may lack its process id: on a full disk there is no status.
    """
    lock = os.path.realpath(folder.settings.lock_path)
    for process in folder.processes():
        if holds_open(process.id, lock):
            send_signal(process.id, number)


def end_agent(folder: AgentFolder, environment: Mapping[str, str]) -> bool:
    """Wait for a supervisor that was told to stop, then end its leftovers in `environment`.

    Returns True if anything was alive; raises AgentError if something survives SIGKILL.
    """
    was_supervised = folder.is_alive()
    deadline = time.monotonic() + folder.longest_end_seconds
    while folder.is_alive():
        if time.monotonic() > deadline:
            signal_supervisor(folder, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
    return end_leftovers(folder, environment) or was_supervised


def await_exit(folder: AgentFolder) -> None:
    """Wait for the exit of a supervisor that has reported its end."""
    deadline = time.monotonic() + EXIT_SECONDS
    while folder.agent().state == "ended" and folder.is_alive() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def end_leftovers(folder: AgentFolder, environment: Mapping[str, str]) -> bool:
    """End the leftovers of a killed supervisor; return True if there were any.

    Its runs are assigned again, with the key that its processes still carry.
    """
    left = folder.processes()
    if not left:
        return False
    keys = [key for process in left if (key := read_variable(process.id, "WANDB_API_KEY"))]
    spec = folder.spec
    command = [sys.executable, "-P", "-m", "deployer.agent", spec.sweep_path, "--clear"]
    # Flags, because with these variables this process would count as a leftover.
    executor = ["--name", spec.name, "--folder", str(folder.path)]
    subprocess.run(
        [*command, *executor, "--grace-seconds", str(spec.grace_seconds)],
        stdin=subprocess.DEVNULL,
        cwd=folder.path,
        env={**environment, "WANDB_BASE_URL": spec.base_url, "WANDB_API_KEY": "".join(keys[:1])},
        check=False,
    )
    if left := folder.processes():
        numbers = " ".join(str(process.id) for process in left)
        raise AgentError(
            f"processes of agent {spec.name} are still running: {numbers}", f"ps -fp {numbers}"
        )
    return True
