"""Delivers undelivered data of earlier attempts before a run's trainer begins.

The run's prologue starts it in a separate process, with the trainer's environment.
"""

import os
import sys
import time

from ..server import ServerAddress
from .delivery import Delivery, deliver_end, deliver_history, get_run
from .local_runs import load_leftovers, supersede

PATIENCE_SECONDS = 60.0  # less than the 90 s that `wandb.init` waits for a server
FINISHED_ALREADY = 100


def main(resumes: bool) -> int:
    """Deliver missing data; return FINISHED_ALREADY if an undelivered attempt ended with 0.

    Supersedes the earlier rows of a run that does not resume.
    """
    environment = os.environ
    folder = os.path.dirname(environment["DEPLOYER_AGENT_FOLDER"])
    run_id = environment["WANDB_RUN_ID"]
    path = [environment[f"WANDB_{part}"] for part in ("ENTITY", "PROJECT", "SWEEP_ID")]
    server = ServerAddress(environment["WANDB_BASE_URL"], environment.get("WANDB_API_KEY", ""))
    task = Delivery(server, "/".join(path), environment["DEPLOYER_AGENT"], folder)
    deadline = time.monotonic() + PATIENCE_SECONDS
    leftovers = load_leftovers(folder, run_id)
    good = leftovers is not None and leftovers.exit_code == 0
    if good and deliver_end(task, run_id, leftovers, deadline, seen=False):
        return FINISHED_ALREADY
    if not resumes:
        supersede(folder, run_id)
        return 0
    run = get_run(task, run_id, deadline)
    if run and leftovers and not deliver_history(task, run_id, leftovers, run, deadline):
        sys.stderr.write(f"deployer: run {run_id}: its last rows did not reach the server\n")
    return 0
