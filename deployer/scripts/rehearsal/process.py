"""The process of a rehearsal: its environment, a bounded time, and the answer that it leaves."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

LOOK_SECONDS = 0.01
# A run of `wandb agent` has these; a script may read them while it is imported.
OF_A_RUN = {
    "WANDB_MODE": "disabled",
    "WANDB_SILENT": "true",
    "WANDB_RUN_ID": "rehearsal",
    "WANDB_SWEEP_ID": "rehearsal",
}
NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""}
OWN_FOLDERS = ("DEPLOYER_CHECKPOINT_DIR", "DEPLOYER_OUTPUT_DIR", "WANDB_DIR")


class Rehearsal(NamedTuple):
    """What is started, and the command lines that its parser is asked about."""

    interpreter: Sequence[str]
    target: str
    module: bool
    variables: Mapping[str, str]
    command_lines: Sequence[Sequence[str]]
    config: Mapping[str, Any]
    seconds: float


class Silent(Exception):
    """There is no answer; it says why."""


def rehearse(asked: Rehearsal, folder: str, environment: Mapping[str, str]) -> Dict[str, Any]:
    """Return the answer of the script's parser to each command line, see `answer.py`.

    The environment has no keys. Raises Silent if there is no answer in time.
    """
    with tempfile.TemporaryDirectory(prefix="deployer-rehearsal-") as scratch:
        answer, request = os.path.join(scratch, "answer.json"), os.path.join(scratch, "request")
        words = {
            "answer": answer,
            "command_lines": asked.command_lines,
            "target": asked.target,
            "module": asked.module,
            "config": asked.config,
            "seconds": asked.seconds,
        }
        with open(request, "w", encoding="utf-8") as file:
            json.dump(words, file)
        own = {**OF_A_RUN, **NO_GPU, **dict.fromkeys(OWN_FOLDERS, scratch)}
        variables = {**environment, **own, "KUBECONFIG": os.devnull, **asked.variables}
        executable = find_executable(asked.interpreter[0], variables)
        command = [executable, *asked.interpreter[1:], "-c", build_code("program"), request]
        said = _run(command, folder, variables, answer, asked.seconds)
        if not os.path.isfile(answer):
            raise Silent(said)
        with open(answer, encoding="utf-8") as file:
            found: Dict[str, Any] = json.load(file)
        return found


def find_executable(name: str, environment: Mapping[str, str]) -> str:
    """Return the path of what is started; raises Silent if it is not here."""
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
    if not found:
        raise Silent("there is no %s here" % name)
    return found


def build_code(module: str) -> str:
    """Return what starts a module of this package, in a zip file too: one line, for launchers."""
    package = os.path.dirname(os.path.abspath(__file__))
    above, name = os.path.split(package)
    return "import sys; sys.path[:1] = [%r]; from %s.%s import main; %s" % (
        above,
        name,
        module,
        "del sys.path[0]; main(sys.argv[1])",
    )


def _run(
    command: List[str], folder: str, environment: Mapping[str, str], answer: str, seconds: float
) -> str:
    """Run until there is an answer, and end all that is left; return why there may be none."""
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        return "%s cannot be started: %s" % (command[0], said)
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline and not os.path.isfile(answer):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_SECONDS)
                return "its interpreter ended with exit code %d" % process.returncode
        return "no parse_args within %.0f s" % seconds
    finally:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def name_complaint(said: Mapping[str, Any]) -> Tuple[str, str]:
    """Return what makes two complaints of a parser one."""
    return said["kind"], said["flag"] or said.get("said", "")
