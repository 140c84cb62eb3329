"""Runs a rehearsal: the script's own interpreter, an environment without keys, a bounded time."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deployer.config.redaction import is_secret_name
from deployer.scripts.invocation import Invocation
from deployer.scripts.unseen import Unseen

PACKAGE = Path(__file__).parent / "rehearsal"
LOOK_SECONDS = 0.01
# A run of `wandb agent` has these; a script may read them while it is imported.
OF_A_RUN = {
    "WANDB_MODE": "disabled",
    "WANDB_SILENT": "true",
    "WANDB_RUN_ID": "rehearsal",
    "WANDB_SWEEP_ID": "rehearsal",
}
NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""}
# Names of files with credentials; of others, `is_secret_name` knows the names.
CREDENTIAL_FILES = ("GOOGLE_APPLICATION_CREDENTIALS", "AWS_SHARED_CREDENTIALS_FILE", "NETRC")


def build_environment(environment: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Return an environment without keys, GPU and kubeconfig, in which W&B is off."""
    kept = {
        name: value
        for name, value in environment.items()
        if not is_secret_name(name) and name not in CREDENTIAL_FILES
    }
    folders = ("DEPLOYER_CHECKPOINT_DIR", "DEPLOYER_OUTPUT_DIR", "WANDB_DIR")
    own = dict.fromkeys(folders, str(scratch))
    return {**kept, **OF_A_RUN, **NO_GPU, **own, "KUBECONFIG": os.devnull}


def rehearse(
    invocation: Invocation,
    command_lines: Sequence[Sequence[str]],
    config: Mapping[str, Any],
    folder: Path,
    environment: Mapping[str, str],
    seconds: float,
) -> dict[str, Any]:
    """Return the answer of the script's parser to each command line, see `rehearsal/answer.py`.

    Raises Unseen if there is none after so many seconds.
    """
    with tempfile.TemporaryDirectory(prefix="deployer-rehearsal-") as scratch:
        answer, request = Path(scratch, "answer.json"), Path(scratch, "request.json")
        asked = {
            "answer": str(answer),
            "command_lines": command_lines,
            "target": invocation.target,
            "module": invocation.module,
            "config": config,
            "seconds": seconds,
        }
        request.write_text(json.dumps(asked), encoding="utf-8")
        variables = {**build_environment(environment, Path(scratch)), **invocation.variables}
        command = [*_find_interpreter(invocation, variables), "-c", _bootstrap(), str(request)]
        said = _run(command, folder, variables, answer, seconds)
        if not answer.is_file():
            raise Unseen(said)
        found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        return found


def find_executable(invocation: Invocation, environment: Mapping[str, str]) -> str:
    """Return the path of what is started; raises Unseen if it is not here."""
    first = invocation.interpreter[0]
    found = shutil.which(first, path=environment.get("PATH", os.defpath))
    if not found:
        raise Unseen(f"there is no {first} here")
    return found


def _find_interpreter(invocation: Invocation, environment: Mapping[str, str]) -> list[str]:
    return [find_executable(invocation, environment), *invocation.interpreter[1:]]


def _bootstrap() -> str:
    """Return the code that starts the rehearsal: one line, for launchers that take no more."""
    return (
        f"import sys; sys.path[:1] = [{str(PACKAGE.parent)!r}]; "
        "from rehearsal.program import main; del sys.path[0]; main(sys.argv[1])"
    )


def _run(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    answer: Path,
    seconds: float,
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
        return f"{command[0]} cannot be started: {(error.strerror or str(error)).lower()}"
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline and not answer.is_file():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_SECONDS)
                return f"its interpreter ended with exit code {process.returncode}"
        return f"no parse_args within {seconds:.0f} s"
    finally:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
