"""What agents on this machine work with: Python, packages, driver; asked, never imported."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from deployer.executors.base import Surroundings
from deployer.executors.local.run_environment import PROBE_SECONDS

# As importlib.metadata reads them, without the packages' descriptions: in a fifth of the time.
ASK_PYTHON = """
import json, os, platform, re, sys
packages = {}
for place in filter(os.path.isdir, reversed(sys.path)):
    for entry in os.listdir(place):
        if not entry.endswith((".dist-info", ".egg-info")):
            continue
        for name in ("/METADATA", "/PKG-INFO", ""):
            try:
                with open(os.path.join(place, entry) + name, "rb") as file:
                    head = file.read(2000).decode(errors="replace")
            except OSError:
                continue
            told = dict(re.findall(r"^(Name|Version): *(.+?)\\s*$", head, re.M))
            if len(told) == 2:
                packages[told["Name"]] = told["Version"]
                break
print(json.dumps([platform.python_version(), dict(sorted(packages.items()))]))
"""
ASK_DRIVER = ("--query-gpu=driver_version,name", "--format=csv,noheader")


def read_surroundings(python: str, environment: Mapping[str, str]) -> Surroundings:
    """Return the Python that runs the trainer, its packages, and the driver of the GPUs."""
    said = _ask(python, ["-c", ASK_PYTHON], environment)
    version, packages = json.loads(said) if said else ("", {})
    told = _ask("nvidia-smi", ASK_DRIVER, environment)
    rows = [line.split(", ", 1) for line in told.splitlines()]
    gpus = [row for row in rows if len(row) == 2]
    return Surroundings(
        version, packages, gpus[0][0] if gpus else "", tuple(name for _, name in gpus)
    )


def _ask(program: str, words: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return what a program prints; empty if it is not there or fails."""
    command = shutil.which(program, path=environment.get("PATH", os.defpath))
    if command is None:
        return ""
    try:
        answer = subprocess.run(
            [command, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=dict(environment),
            timeout=PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
