"""The processes of a rehearsal: their environment, their limits, and the answer that they leave."""

import contextlib
import json
import os
import pkgutil
import re
import shutil
import signal
import subprocess
import tempfile
import time
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

POLL_SECONDS = 0.01
SECONDS = 60.0
REMOVING_SECONDS = 2.0
START_SECONDS = 10.0  # until a Python has started: what is none would do its work
FILES = ("sitecustomize", "deployer_parsers", "deployer_session", "deployer_wandb")
PROLOGUE = "prologue"
JSON_FILE = "${args_json_file}"
PYTHON = re.compile(r"(.*/)?(python|pypy)[0-9.]*")
ISOLATED = re.compile(r"-[a-zA-Z]*[IES][a-zA-Z]*")
# They start the script in another place, where it would run to its end.
ELSEWHERE = (
    "docker",
    "podman",
    "nerdctl",
    "srun",
    "sbatch",
    "ssh",
    "kubectl",
    "ray",
    "qsub",
    "bsub",
)
# A run of `wandb agent` has these; a script may read them at its start.
OF_A_RUN = {
    "WANDB_MODE": "disabled",
    "WANDB_SILENT": "true",
    "WANDB_RUN_ID": "rehearsal",
    "WANDB_SWEEP_ID": "rehearsal",
}
NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""}
# Where tools that keep keys below HOME look for them instead. HOME itself stays: user packages,
# pyenv and conda are found by it.
NO_FILE = (
    *("KUBECONFIG", "NETRC", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"),
    *("HF_TOKEN_PATH", "BOTO_CONFIG"),
)
NO_FOLDER = ("CLOUDSDK_CONFIG", "AZURE_CONFIG_DIR", "KAGGLE_CONFIG_DIR", "DOCKER_CONFIG")
DROPPED = ("GOOGLE_APPLICATION_CREDENTIALS", "PYTHONSAFEPATH")
OWN_FOLDERS = ("DEPLOYER_CHECKPOINT_DIR", "DEPLOYER_OUTPUT_DIR", "WANDB_DIR", "TMPDIR")
# No sentence is broken or framed.
PLAIN_TEXT = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "1000", "TYPER_USE_RICH": "0"}


class Commands(NamedTuple):
    """The commands of some configurations: they differ in the block of words in the middle."""

    before: Sequence[str]
    blocks: Sequence[Sequence[str]]
    after: Sequence[str]
    configs: Sequence[Mapping[str, Any]]


class Silent(Exception):
    """There is no answer; it says why."""


def rehearse(
    commands: Commands,
    folder: str,
    environment: Mapping[str, str],
    seconds: float = SECONDS,
    describing: bool = False,
) -> Dict[str, Any]:
    """Run the first command until its script has parsed its flags, and return the answer.

    The answer is what `Session` records, or only `end` (exit code and output) without a parse.
    `describing` asks for the parser's flags alone. The environment has no keys. Raises Silent.
    """
    refuse_unseen(commands.before)
    with _make_scratch() as scratch:
        blocks = list(_fill_in_files(commands, scratch))
        request = {"blocks": blocks, "configs": commands.configs, "describing": describing}
        _write(os.path.join(scratch, "request.json"), json.dumps(request).encode())
        prologue = os.path.join(scratch, PROLOGUE)
        os.mkdir(prologue)
        for name in FILES:
            text = pkgutil.get_data(__package__, "%s/%s.py" % (PROLOGUE, name))
            _write(os.path.join(prologue, name + ".py"), text or b"")
        variables = _build_environment(environment, scratch, prologue)
        words = [*commands.before, *blocks[0], *commands.after]
        words = [_add_path(word, prologue) for word in words]
        return _run(words, folder, variables, scratch, seconds)


@contextlib.contextmanager
def _make_scratch() -> Iterator[str]:
    """Make a temporary folder, and remove it: what the script has started may still write there."""
    scratch = tempfile.mkdtemp(prefix="deployer-rehearsal-")
    try:
        yield scratch
    finally:
        deadline = time.monotonic() + REMOVING_SECONDS
        shutil.rmtree(scratch, ignore_errors=True)
        while os.path.exists(scratch) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            shutil.rmtree(scratch, ignore_errors=True)


def refuse_unseen(words: Sequence[str]) -> None:
    """Raise Silent for commands whose script would run where it cannot be watched."""
    for word, after in zip(words, [*words[1:], ""]):
        if os.path.basename(word) in ELSEWHERE:
            raise Silent("%s starts the script elsewhere" % word)
        if PYTHON.fullmatch(word) and after.startswith("-") and ISOLATED.fullmatch(after):
            raise Silent("%s %s cannot be checked" % (word, after))
        if PYTHON.fullmatch(word) and after in ("-c", "-"):
            raise Silent("its command contains the code")
        if os.path.basename(word) == "env" and after in ("-i", "-", "--ignore-environment"):
            raise Silent("env %s cannot be checked" % after)


def gets_no_words(commands: Commands) -> bool:
    """Return True if nothing follows the script: it refuses nothing, and would do its work."""
    if any(commands.blocks) and not commands.after:
        return False
    launcher, script = ["", *(commands.after or commands.before)][-2:]
    return script.endswith(".py") or launcher == "-m"


def _fill_in_files(commands: Commands, scratch: str) -> Iterator[List[str]]:
    for index, (block, config) in enumerate(zip(commands.blocks, commands.configs)):
        file = os.path.join(scratch, "%d.json" % index)
        if JSON_FILE in block:
            _write(file, json.dumps(config).encode())
        yield [file if word == JSON_FILE else word for word in block]


def _build_environment(
    environment: Mapping[str, str], scratch: str, prologue: str
) -> Dict[str, str]:
    found = {name: value for name, value in environment.items() if name not in DROPPED}
    own = os.path.join(scratch, "own")
    os.mkdir(own)
    found.update({**OF_A_RUN, **NO_GPU, **PLAIN_TEXT, **dict.fromkeys(OWN_FOLDERS, own)})
    found.update(dict.fromkeys(NO_FILE, os.devnull))
    empty = os.path.join(scratch, "empty")
    os.mkdir(empty)
    found.update(dict.fromkeys(NO_FOLDER, empty))
    found["SCRIPT_REHEARSAL"] = scratch
    found["PYTHONPATH"] = os.pathsep.join([prologue, *filter(None, [found.get("PYTHONPATH")])])
    return found


def _add_path(word: str, prologue: str) -> str:
    name, equals, value = word.partition("=")
    return (
        "%s=%s%s%s" % (name, prologue, os.pathsep, value)
        if name + equals == "PYTHONPATH="
        else word
    )


def _run(
    words: List[str], folder: str, environment: Dict[str, str], scratch: str, seconds: float
) -> Dict[str, Any]:
    output, answer = os.path.join(scratch, "output"), os.path.join(scratch, "answer.json")
    executable = shutil.which(words[0], path=environment.get("PATH", os.defpath))
    if not executable and not os.path.exists(os.path.join(folder, words[0])):
        raise Silent("the program %s is not installed here" % words[0])
    with open(output, "wb") as file:
        try:
            process = subprocess.Popen(
                words,
                executable=executable or words[0],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        except OSError as error:
            said = (error.strerror or str(error)).lower()
            raise Silent("%s cannot be started: %s" % (words[0], said)) from None
    try:
        status, late = _await(process, answer, os.path.join(scratch, "seen"), seconds)
    finally:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if os.path.exists(answer):
        with open(answer, encoding="utf-8") as file:
            found: Dict[str, Any] = json.load(file)
        return found
    if late:
        raise Silent(late)
    with open(output, encoding="utf-8", errors="replace") as file:
        return {"end": {"status": status, "text": file.read()[-20_000:]}}


def _await(
    process: "subprocess.Popen[bytes]", answer: str, seen: str, seconds: float
) -> Tuple[int, str]:
    """Return the exit code, and why there is none."""
    begin = time.monotonic()
    while time.monotonic() < begin + seconds:
        if os.path.exists(answer):
            return 0, ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(POLL_SECONDS), ""
        if time.monotonic() > begin + START_SECONDS and not os.path.exists(seen):
            return 0, "its command starts no Python within %.0f s" % START_SECONDS
    return 0, "it parses no flags and logs nothing within %.0f s" % seconds


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
