"""Sends a run's outputs to an object store, in a process of its own, with the run's environment."""

import os
import sys
import time
from typing import Mapping, Sequence

from ..settings import KEEP_VARIABLE
from .object_store import Refused, open_folder

PATIENCE_SECONDS = 600.0


def main(environment: Mapping[str, str], names: Sequence[str]) -> int:
    """Copy these files, and delete what an earlier attempt has left there; 1 if it was refused."""
    patience = float(environment.get("WANDB_FINISH_TIMEOUT") or PATIENCE_SECONDS)
    own = f"{environment['WANDB_SWEEP_ID']}/{environment['WANDB_RUN_ID']}"
    url = f"{environment[KEEP_VARIABLE].rstrip('/')}/{own}"
    folder = environment["DEPLOYER_OUTPUT_DIR"]
    try:
        store = open_folder(url, environment, time.time() + patience)
        there = set(store.list_names())
        store.abort_uploads()
        for name in names:
            store.put(name, os.path.join(folder, name))
        for name in there - set(names):
            store.delete(name)
    except Refused as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0
