"""What a warm parent does once for all runs gives each run what the SDK would have found itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deployer.agent.host.processes import is_agent, is_core
from tests.agent.conftest import Bench
from tests.agent.trainers import TRAINER
from tests.contract.sdks import python_with

# `told` is the SDK's list before the shortcut; the distributions are hidden while it is used.
PACKAGES = """
import importlib.metadata, json, os, sys
import wandb.util
os.mkdir("script")
sys.path.append("site")
def tell():
    return sorted(f"{one.key} {one.version}" for one in wandb.util.working_set())
def add(folder, name):
    os.makedirs(f"{folder}/{name}-1.0.dist-info")
    with open(f"{folder}/{name}-1.0.dist-info/METADATA", "w") as file:
        file.write(f"Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n")
    importlib.invalidate_caches()
add("site", "one")
told = tell()
from deployer.agent.warm.sdk import list_packages_once
list_packages_once()
find, importlib.metadata.distributions = importlib.metadata.distributions, lambda **_: iter(())
sys.path.insert(0, "script")
again = tell()
importlib.metadata.distributions = find
add("script", "of-the-project")
with_project = tell()
del sys.path[0]
add("site", "two")
print(json.dumps([told, again, with_project, tell()]))
"""
PROCESS_ID = """
import os, sys
import wandb.sdk.wandb_settings as settings
from deployer.agent.warm.sdk import read_process_id_late
read_process_id_late()
if not os.fork():
    print(settings.Settings().x_stats_pid == os.getpid())
    sys.stdout.flush()
    os._exit(0)
os.wait()
"""


def run_program(program: str, folder: Path, python: str | Path = sys.executable) -> str:
    code = f"import sys; sys.path.append({os.getcwd()!r})\n{program}"
    return subprocess.check_output([python, "-c", code], cwd=folder, text=True)


def see_packages(folder: Path, python: str | Path = sys.executable) -> None:
    told, again, with_project, later = json.loads(run_program(PACKAGES, folder, python))
    assert "one 1.0" in told
    assert any(line.startswith("wandb ") for line in told)
    assert again == told
    assert with_project == sorted([*told, "of-the-project 1.0"])
    assert later == sorted([*told, "two 1.0"])


def test_packages_are_listed_once_until_they_change(tmp_path: Path) -> None:
    see_packages(tmp_path)


def test_a_runs_settings_name_its_own_process(tmp_path: Path) -> None:
    assert run_program(PROCESS_ID, tmp_path) == "True\n"


@pytest.mark.full
@pytest.mark.parametrize("version", ["0.22.3", "0.26.1"])
def test_an_older_sdk_is_served_likewise(version: str, tmp_path: Path) -> None:
    see_packages(tmp_path, python_with(version))
    assert run_program(PROCESS_ID, tmp_path, python_with(version)) == "True\n"


# A cold run is a child of its agent.
NOTES_CORE = """
import os, psutil, wandb
agent = psutil.Process(os.getppid())
with open("cores", "a") as file:
    file.write(f"{[one.pid for one in agent.children() if one.name() == 'wandb-core']}\\n")
"""


def test_an_agent_keeps_its_core(bench: Bench) -> None:
    (bench.folder / "train.py").write_text(f"{NOTES_CORE}{TRAINER}")
    path = bench.create_sweep("[1.0, 2.0, 3.0]")
    code, output = bench.start_with_own_key(path).wait()
    assert code == 0, output
    cores = (bench.folder / "cores").read_text().splitlines()
    assert len(cores) == 3
    assert len(set(cores)) == 1
    assert len(json.loads(cores[0])) == 1


def test_a_core_that_is_killed_during_a_run_ends_the_agent_after_it(bench: Bench) -> None:
    path = bench.create_sweep("[1.0, 2.0]", wait="yes")
    supervised = bench.start_with_own_key(path)
    bench.wait_for_work()
    [agent] = [one for one in supervised.left() if is_agent(one)]
    for process in supervised.left():
        if process.parent == agent.id and is_core(process):
            os.kill(process.id, signal.SIGKILL)
    bench.release()
    code, output = supervised.wait()
    assert code == 1, output
    assert supervised.left() == []
    assert bench.runs(path)[-1].state == "finished"
