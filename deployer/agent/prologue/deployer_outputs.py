"""A run's folder for outputs (DEPLOYER_OUTPUT_DIR), and what keeps its files.

Where the folder ends with the pod, the files are sent away before the run tells its server that it
has finished: as a teardown hook of the SDK's own, which `wandb.init` gives to the run. An attempt
that starts afresh finds the folder empty; one that resumes finds what its predecessor wrote.
"""

import os
import sys
from typing import Any, List

ROOT = "DEPLOYER_OUTPUT_ROOT"
FOLDER = "DEPLOYER_OUTPUT_DIR"
ISOLATE = "DEPLOYER_ISOLATE"  # with it, what the run writes to its working folder is kept, too
KEEP = "DEPLOYER_OUTPUT_KEEP"  # `wandb`, or empty: the folder itself is kept
MODULE_OF_RUNS = "wandb.sdk.wandb_run"
INTERRUPTED = "deployer-interrupted"  # local_runs.py
# In the summary of a run that has finished although its outputs could not be kept.
NOT_KEPT = "deployer_outputs_not_kept"


def make_folder(resumes: bool) -> None:
    """Make the run's folder, once for each attempt empty unless the run resumes."""
    environment = os.environ
    sweep = os.path.join(environment[ROOT], environment["WANDB_SWEEP_ID"])
    folder = os.path.join(sweep, environment["WANDB_RUN_ID"])
    os.makedirs(folder, exist_ok=True)
    # A command may start several programs; the agent gives each attempt a process group.
    attempt = f"{environment.get('DEPLOYER_AGENT_START', '')} {os.getpgrp()}"
    if read_text(f"{folder}.attempt") != attempt:
        if not resumes:
            empty(folder)
        with open(f"{folder}.attempt", "w", encoding="utf-8") as file:
            file.write(attempt)
    environment[FOLDER] = folder


def read_text(path: str) -> str:
    """Return a file's text, empty if there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def empty(folder: str) -> None:
    """Delete what earlier attempts left in a folder; the run's command may write there already."""
    try:
        began = os.stat(f"{folder}.began").st_ctime_ns  # launcher.py
    except FileNotFoundError:
        began = sys.maxsize
    for entry in os.scandir(folder):
        if entry.stat(follow_symlinks=False).st_ctime_ns >= began:
            continue
        if entry.is_dir(follow_symlinks=False):
            import shutil

            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def attach() -> None:
    """Have the SDK's runs of this process keep their outputs."""
    __import__("deployer_sdk").await_module(MODULE_OF_RUNS, add_hook)


def add_hook(module: Any) -> None:
    """Have each run of the SDK keep its outputs before it says that it has ended."""
    if all(hasattr(module, name) for name in ("TeardownHook", "TeardownStage")) and hasattr(
        module.Run, "_set_teardown_hooks"
    ):
        add_teardown_hook(module)
    else:
        wrap_finish(module.Run)


def add_teardown_hook(module: Any) -> None:
    """Use the SDK's own hook, which is called however the run is ended."""
    set_hooks = module.Run._set_teardown_hooks

    def set_more_hooks(run: Any, hooks: Any) -> None:
        keep_once = keep_at_exit(run)
        set_hooks(run, [*hooks, module.TeardownHook(keep_once, module.TeardownStage.EARLY)])

    module.Run._set_teardown_hooks = set_more_hooks


def wrap_finish(run_class: Any) -> None:
    """Use public methods alone, for an SDK whose hooks are others than we know."""
    begin, finish = run_class.__init__, run_class.finish
    keepers: Any = {}

    def begin_and_note(run: Any, *arguments: Any, **named: Any) -> None:
        begin(run, *arguments, **named)
        keepers[id(run)] = keep_at_exit(run)

    def keep_and_finish(run: Any, *arguments: Any, **named: Any) -> Any:
        keepers.pop(id(run), str)()
        return finish(run, *arguments, **named)

    run_class.__init__, run_class.finish = begin_and_note, keep_and_finish


def keep_at_exit(run: Any) -> Any:
    """Return what keeps a run's outputs once; the process's end calls it if nothing else did.

    A run without `finish` is ended by the SDK's own exit handler, which is older than this one.
    """
    import atexit

    owner = os.getpid()

    def keep_once() -> None:
        atexit.unregister(keep_once)
        if os.getpid() == owner:  # not in a fork, which ends while the run goes on
            keep(run)

    atexit.register(keep_once)
    return keep_once


def keep(run: Any) -> None:
    """Send the outputs where they are kept; what fails is named in the run's summary."""
    folder = os.environ.get(FOLDER, "")
    ours = run.id == os.environ.get("WANDB_RUN_ID") and folder
    # One that is interrupted begins again, with the folder as it is or afresh.
    if not ours or os.path.exists(os.path.join(run.dir, os.pardir, INTERRUPTED)):
        return
    try:
        if os.environ.get(ISOLATE):
            __import__("deployer_folder").gather(os.environ)
        else:
            __import__("deployer_shared").tell(run)
        names = list_names(folder) if os.environ.get(KEEP) else []
        if names:
            log_artifact(run, folder, names)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        sys.stderr.write(f"deployer: the outputs of run {run.id} could not be kept: {said}\n")
        run.summary[NOT_KEPT] = said[:500]


def list_names(folder: str) -> List[str]:
    """Return the paths of a folder's files in it, in order; links that lead nowhere are none."""
    found = [os.path.join(inner, name) for inner, _, names in os.walk(folder) for name in names]
    return sorted(os.path.relpath(path, folder) for path in found if os.path.isfile(path))


def log_artifact(run: Any, folder: str, names: List[str]) -> None:
    """Log the files as one artifact of the run, and wait until the server has all of it."""
    sums = "".join(f"{hash_file(os.path.join(folder, name))}  {name}\n" for name in names)
    # One text, since a server limits the number of keys.
    artifact = sys.modules["wandb"].Artifact(
        f"run-{run.id}-output", "output", metadata={"sha256": sums}
    )
    for name in names:
        # One by one, and as they lie there: at a process's end no thread can be started.
        artifact.add_file(os.path.join(folder, name), name, skip_cache=True, policy="immutable")
    run.log_artifact(artifact).wait(float(os.environ.get("WANDB_FINISH_TIMEOUT") or 600))


def hash_file(path: str) -> str:
    """Return a file's SHA-256."""
    import hashlib

    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()
