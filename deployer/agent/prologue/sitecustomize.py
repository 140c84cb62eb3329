"""The prologue of every run: Python itself executes it, in the run's first Python process.

Its folder is on PYTHONPATH, so that neither the trainer nor wandb is changed. It gives the run its
checkpoint folder (DEPLOYER_CHECKPOINT_DIR), which no other attempt may write to at the same time,
lets the run resume if that folder is not empty, and gives it its folder for outputs. It has the SDK
end without losing anything. It must never make a run fail: any trouble is one line on stderr. A
command that starts no Python, or one with -I, -E or -S, goes without it.
"""

import os
import sys

LOCK_SECONDS = 60.0  # longer than a successor needs to end what is left of its predecessor
LOCKED = 75  # EX_TEMPFAIL
FINISHED_ALREADY = 100  # runs/late_delivery.py
MARK = "DEPLOYER_RUN_PROLOGUE"

locks: "list[int]" = []  # held until the process ends


def prepare_run() -> None:
    """Make the checkpoint folder, take its lock, and decide whether the run resumes."""
    environment = os.environ
    run_id = environment["WANDB_RUN_ID"]
    environment[MARK] = run_id  # children must not do this again
    sweep = os.path.join(environment["DEPLOYER_CHECKPOINT_ROOT"], environment["WANDB_SWEEP_ID"])
    folder = os.path.join(sweep, run_id)
    os.makedirs(folder, exist_ok=True)
    hold_lock(folder + ".lock", environment.get("DEPLOYER_AGENT_START", ""))
    environment["DEPLOYER_CHECKPOINT_DIR"] = folder
    resumes = bool(os.listdir(folder))
    if was_here(os.path.dirname(environment["DEPLOYER_AGENT_FOLDER"]), run_id):
        catch_up(run_id, resumes)
    if resumes:
        environment.setdefault("WANDB_RESUME", "allow")
    if environment.get("DEPLOYER_OUTPUT_ROOT"):
        prepare_outputs(resumes)


def prepare_outputs(resumes: bool) -> None:
    """Make the folder for outputs; what was written before is finished business by now."""
    try:
        __import__("deployer_outputs").make_folder(resumes)
    except Exception as error:
        sys.stderr.write(f"deployer: the run's folder for outputs is not ready: {error!r}\n")


def hold_lock(path: str, owner: str) -> None:
    """Lock a file until this process ends; another program of the same attempt may hold it."""
    import fcntl
    import time

    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    locks.append(handle)
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if os.pread(handle, 200, 0) == owner.encode():
                return
            if time.monotonic() > deadline:
                sys.stderr.write(f"deployer: another attempt of this run still holds {path}\n")
                os._exit(LOCKED)
            time.sleep(0.1)
    os.ftruncate(handle, 0)
    os.pwrite(handle, owner.encode(), 0)


def was_here(agents: str, run_id: str) -> bool:
    """Return whether an earlier attempt of the run has left something in an agent's folder."""
    for agent in os.listdir(agents):
        try:
            names = os.listdir(os.path.join(agents, agent, "wandb"))
        except OSError:
            continue
        # `run-<time>-<run id>`, and sometimes `-<number>` behind it.
        if any(name.startswith("run-") and f"-{run_id}-" in f"{name}-" for name in names):
            return True
    return False


def catch_up(run_id: str, resumes: bool) -> None:
    """Bring the server up to date in another process, which may find that nothing is left to do."""
    import subprocess

    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folder, name = os.path.split(package)
    steps = (
        f"import sys; sys.path.append({folder!r})",
        f"from {name}.runs.late_delivery import main; sys.exit(main({resumes}))",
    )
    code = "\n".join(steps)
    if subprocess.call([sys.executable, "-I", "-S", "-c", code]) == FINISHED_ALREADY:
        sys.stderr.write(f"deployer: run {run_id} had finished; its end is delivered now\n")
        sys.stderr.flush()
        os._exit(0)


def run_next() -> None:
    """Execute the sitecustomize module that ours hides, if there is one."""
    ours = os.path.dirname(os.path.abspath(__file__))
    others = [path for path in sys.path if os.path.abspath(path) != ours]
    # By the finders themselves: importing importlib's modules would cost more than all the rest.
    for finder in sys.meta_path:
        spec = finder.find_spec("sitecustomize", others)
        if spec and spec.loader:
            module = type(sys)("sitecustomize")
            module.__file__, module.__spec__ = spec.origin, spec
            spec.loader.exec_module(module)
            return


NEEDED = ("WANDB_RUN_ID", "WANDB_SWEEP_ID", "DEPLOYER_CHECKPOINT_ROOT", "DEPLOYER_AGENT_FOLDER")


def begin() -> None:
    """Prepare the run, if this is a process of one; the warm parent's forks call it themselves."""
    environment = os.environ
    if not all(map(environment.get, NEEDED)):
        return
    if environment.get(MARK) != environment["WANDB_RUN_ID"]:
        try:
            prepare_run()
        except Exception as error:
            sys.stderr.write(f"deployer: the run's checkpoint folder is not ready: {error!r}\n")
    # In each process of the run: whichever calls `wandb.init` is the one that ends it.
    sdk = __import__("deployer_sdk")
    sdk.await_module(sdk.CLIENT, sdk.close_when_read)
    if environment.get(sdk.OLD_URL):
        sdk.choose_base_url(environment)
    if environment.get("DEPLOYER_METRICS_CLAIM"):
        __import__("deployer_metrics").attach()
    if environment.get("DEPLOYER_OUTPUT_DIR"):
        __import__("deployer_outputs").attach()
        if not environment.get("DEPLOYER_ISOLATE"):
            __import__("deployer_shared").attach()


begin()
run_next()
