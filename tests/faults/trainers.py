"""Trainer scripts as users write them; each is the text of a `train.py`.

All of them log `STEPS` rows, each with an explicit step, and append a line to `trace.jsonl` in the
working folder for whatever they do, so that a failing test can tell what was trained from what
reached the server. At the step that the file `hold` names, they wait until it names another or is
gone: so a fault strikes in the middle of a run, on a busy machine too.
"""

from __future__ import annotations

STEPS = 20

_BEGIN = f"""
import argparse, ast, json, os, pathlib, signal, subprocess, sys, time
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--layers", type=int, default=1)
parser.add_argument("--optimizer", type=ast.literal_eval, default={{}})
parser.add_argument("--steps", type=int, default={STEPS})
parser.add_argument("--pause", type=float, default=0.05)
arguments = parser.parse_args()


def trace(event, step=None, process=None):
    line = {{"at": time.time(), "process": process or os.getpid(), "event": event, "step": step}}
    line["run"] = os.environ.get("WANDB_RUN_ID", "")
    with open("trace.jsonl", "a") as file:
        file.write(json.dumps(line) + "\\n")


def loss(step):
    return arguments.lr * arguments.layers / (step + 1)


def held(step):
    try:
        return pathlib.Path("hold").read_text() == str(step)
    except FileNotFoundError:
        return False


def end_step(step):
    trace("step", step)
    while held(step):
        time.sleep(0.02)

"""

_CHECKPOINT = """
folder = os.environ.get("DEPLOYER_CHECKPOINT_DIR")
checkpoint = pathlib.Path(folder) / "last.json" if folder else None


def load():
    return json.loads(checkpoint.read_text()) + 1 if checkpoint and checkpoint.exists() else 0


def save(step):
    if checkpoint:
        draft = checkpoint.with_suffix(".new")
        draft.write_text(json.dumps(step))
        os.replace(draft, checkpoint)

"""

_RESUMING_LOOP = """
run = wandb.init(config=vars(arguments))
first = load()
trace("begin", first)
for step in range(first, arguments.steps):
    time.sleep(arguments.pause)
    # Committed at once: by itself a row with a step waits for the next row.
    run.log({"loss": loss(step)}, step=step, commit=True)
    save(step)
    end_step(step)
run.finish()
trace("end")
"""

_PLAIN_LOOP = """
run = wandb.init(config=vars(arguments))
trace("begin", 0)
for step in range(arguments.steps):
    time.sleep(arguments.pause)
    run.log({"loss": loss(step)}, step=step)
    end_step(step)
run.finish()
trace("end")
"""

# Saves a checkpoint after each step and goes on from it.
RESUMING = _BEGIN + _CHECKPOINT + _RESUMING_LOOP

# Knows no checkpoint: every attempt begins with step 0.
NOT_RESUMING = _BEGIN + _PLAIN_LOOP

# Cannot be interrupted, only killed.
DEAF = _BEGIN + "signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + _CHECKPOINT + _RESUMING_LOOP

# Ends with code 0 when it is interrupted, as if it had finished.
_QUIET_LOOP = "".join(f"    {line}\n" for line in _RESUMING_LOOP.strip().splitlines())
QUITTING = (
    _BEGIN
    + _CHECKPOINT
    + f"""
try:
{_QUIET_LOOP}
except KeyboardInterrupt:
    trace("interrupted")
    run.finish()
    sys.exit(0)
"""
)

# Starts a child in a session of its own, as data loaders and launchers do; it never ends by itself,
# and goes on writing after its parent's death.
FORKING = (
    _BEGIN
    + _CHECKPOINT
    + """
parent = os.getpid()
if os.fork() == 0:
    os.setsid()
    while True:
        trace("child", process=parent)
        time.sleep(0.1)
"""
    + _RESUMING_LOOP
)

# Each makes it hard in its own way to end a trainer whose supervisor was killed.
UNHELPFUL = {
    "deaf": DEAF,
    "quitting": QUITTING,
    "forking": FORKING,
    "not-resuming": NOT_RESUMING,
}


def write_unhelpful() -> str:
    """Return a script that is the trainer its optimizer is named after; it leaves a file of it."""
    return f"""
import os, pathlib, sys
[kind] = [kind for kind in {[*UNHELPFUL]} if repr(kind) in " ".join(sys.argv)]
pathlib.Path(f"{{kind}}-{{os.getpid()}}").touch()
exec({UNHELPFUL}[kind])
"""
