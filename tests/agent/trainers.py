"""Trainers that each test can steer, and sweeps of them."""

from __future__ import annotations

# Ends by itself, or waits for the file `go`; writes `at-work-<run>` once the server knows it.
TRAINER = """
import argparse, os, pathlib, signal, time
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--wait", default="no")
parser.add_argument("--deaf", default="no")
arguments = parser.parse_args()
if arguments.deaf == "yes":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with wandb.init() as run:
    run.log({"loss": arguments.lr})
    print("threads", os.environ.get("OMP_NUM_THREADS"), flush=True)
    pathlib.Path("at-work-" + run.id).touch()
    while arguments.wait == "yes" and not pathlib.Path("go").exists():
        time.sleep(0.05)
"""

# Logs a row and saves a checkpoint at each step, and waits at the one that the file `hold` names;
# `kind` is how it behaves when things go wrong.
STEPPING = """
import argparse, json, os, pathlib, signal, subprocess, sys, time
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--kind")
parser.add_argument("--steps", type=int)
parser.add_argument("--pause", type=float)
arguments = parser.parse_args()
if arguments.kind == "deaf":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if arguments.kind in ("forking", "quitting"):
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
checkpoint = pathlib.Path(os.environ["DEPLOYER_CHECKPOINT_DIR"]) / "last.json"
forgetful = arguments.kind == "forgetful"


def held(step):
    try:
        return pathlib.Path("hold").read_text() == str(step)
    except FileNotFoundError:
        return False


run = wandb.init()
first = json.loads(checkpoint.read_text()) + 1 if checkpoint.exists() else 0
with open("trace.jsonl", "a") as trace:
    trace.write(json.dumps({"run": run.id, "first": first, "process": os.getpid()}) + "\\n")
try:
    for step in range(first, arguments.steps):
        run.log({"loss": 1 / (step + 1), "nested": {"step": step}}, step=step, commit=True)
        if arguments.kind == "greedy" and step == 3 and first == 0:
            too_much = b"1" * (1 << 30)
        if not forgetful:
            checkpoint.with_suffix(".new").write_text(json.dumps(step))
            checkpoint.with_suffix(".new").rename(checkpoint)
        pathlib.Path("step.new").write_text(str(step))
        pathlib.Path("step.new").rename("step")
        while held(step):
            time.sleep(0.02)
        time.sleep(arguments.pause)
except KeyboardInterrupt:
    if arguments.kind != "quitting":
        raise
    run.finish()
    sys.exit(0)
run.finish()
pathlib.Path("ended").touch()
"""

STEPPING_SWEEP = """
program: train.py
method: grid
parameters:
  kind: {{value: "{kind}"}}
  steps: {{value: {steps}}}
  pause: {{value: {pause}}}
"""

# Two processes train one model; the first of them speaks for both, and pauses at each step.
PARALLEL = """
import argparse, os, pathlib, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--steps", type=int)
arguments = parser.parse_args()
dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=arguments.lr)
folder = pathlib.Path(os.environ["DEPLOYER_CHECKPOINT_DIR"])
first = 0
if (folder / "last.pt").exists():
    state = torch.load(folder / "last.pt")
    model.module.load_state_dict(state["model"])
    first = state["step"] + 1
if rank == 0:
    import wandb

    run = wandb.init()
for step in range(first, arguments.steps):
    loss = model(torch.full((8, 4), 1.0 + rank)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0:
        row = {"loss": loss.item(), "ranks": dist.get_world_size(), "first": first}
        run.log(row, step=step, commit=True)
        torch.save({"model": model.module.state_dict(), "step": step}, folder / "new.pt")
        os.replace(folder / "new.pt", folder / "last.pt")
        pathlib.Path("step.new").write_text(str(step))
        pathlib.Path("step.new").rename("step")
        while step == max(3, first) and not pathlib.Path("go").exists():
            time.sleep(0.05)
if rank == 0:
    run.finish()
dist.destroy_process_group()
"""

PARALLEL_SWEEP = """
program: train.py
method: grid
command: ["${{env}}", torchrun, --standalone, --nproc_per_node=2, "${{program}}", "${{args}}"]
metric: {{name: loss, goal: minimize}}
parameters:
  lr: {{values: {lrs}}}
  steps: {{value: {steps}}}
"""

SWEEP = """
program: train.py
method: grid
metric: {{name: loss, goal: minimize}}
parameters:
  lr: {{values: {lrs}}}
  wait: {{value: "{wait}"}}
  deaf: {{value: "{deaf}"}}
"""

# Logs three rows and ends as it is told, but once only if its wandb-core is killed under it.
ENDING = """
import argparse, os, pathlib, signal, sys, time
import psutil, wandb

parser = argparse.ArgumentParser()
parser.add_argument("--end")
arguments = parser.parse_args()


def lose_core():
    mark = pathlib.Path("lost-core")
    if mark.exists():
        run.finish()
        return
    mark.touch()
    for child in psutil.Process().children():
        if "wandb-core" in " ".join(child.cmdline()):
            child.kill()
            child.wait()
    time.sleep(0.5)
    os._exit(1)


run = wandb.init()
for step in range(3):
    run.log({"loss": step}, step=step, commit=True)
exec(arguments.end)
"""

# Notes its start, then ends as it is told.
STARTING = """
import os, signal, sys
end = sys.argv[1].partition("=")[2]
with open("starts", "a") as log:
    log.write(end + "\\n")
exec(end)
"""

ENDING_SWEEP = """
program: train.py
method: grid
retries: {retries}
parameters:
  end: {{values: {ends}}}
"""
