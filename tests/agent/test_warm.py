"""Warm starts: a run that is forked cannot be told from one that is started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from deployer.agent.environment import agent_environment
from deployer.agent.processes import list_marked, reap
from deployer.agent.settings import Settings
from deployer.agent.warm_parent import WarmParent
from tests.agent.conftest import wait_for

PROGRAMS = yaml.safe_load(Path(__file__).with_name("warm_programs.yaml").read_text())
MODULES = [
    "argparse",
    "json",
    "logging",
    "multiprocessing.pool",
    "inspect",
    "importlib.metadata",
    "numpy",
]
# What an agent does to start a run; the comment makes it one for the stand-in.
STARTER = """
# .launcher import main
import json, subprocess, sys
words = sys.argv[1:]
with open("out", "w") as out, open("err", "w") as err:
    run = subprocess.Popen(["/usr/bin/env", "python", *words], stdin=subprocess.PIPE,
                           stdout=out, stderr=err, process_group=0)
    run.stdin.close()
    print(run.wait())
"""


@dataclass
class Starts:
    """An agent's folder with a warm parent, and a project folder in which runs are started."""

    folder: Path
    project: Path
    settings: Settings
    parent: WarmParent
    cold: dict[str, str]
    warm: dict[str, str] = field(default_factory=dict)

    def run(self, words: tuple[str, ...], environment: dict[str, str]) -> tuple[int, str, str]:
        """Start one run; return its exit status and what it printed."""
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", STARTER, *words],
            cwd=self.project,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        out, err = (self.project / name for name in ("out", "err"))
        return int(done.stdout), out.read_text(), err.read_text()

    @property
    def start(self) -> str:
        """Return how the last run was started."""
        return (self.folder / "start").read_text()


def build_starts(tmp_path: Path, modules: list[str]) -> Starts:
    folder, project = tmp_path / "agents" / "a1", tmp_path / "project"
    folder.mkdir(parents=True)
    project.mkdir()
    settings = Settings("e/p/sweep", "http://127.0.0.1:1", "a1", str(folder), warm=True)
    before = {
        **os.environ,
        "WANDB_API_KEY": "k" * 40,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    agents = agent_environment(settings, before)
    parent = WarmParent(settings)
    os.chdir(project)
    led = parent.lead(agents)
    Path(led["DEPLOYER_WARM_IMPORTS"]).write_text("\n".join(modules))
    run = {
        "WANDB_RUN_ID": "run1",
        "WANDB_SWEEP_ID": "sweep",
        "DEPLOYER_CHECKPOINT_ROOT": str(folder),
    }
    return Starts(folder, project, settings, parent, {**agents, **run}, {**led, **run})


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starts]:
    here = Path.cwd()
    made = build_starts(tmp_path_factory.mktemp("warm"), MODULES)
    made.parent.tend(())
    wait_for((made.folder / "warm.sock").exists, "the parent")
    yield made
    made.parent.let_go()
    wait_for(lambda: not [reap(), *list_marked(str(made.folder))][1:], "the parent's end")
    os.chdir(here)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_warm_run_is_like_a_cold_one(starts: Starts, name: str) -> None:
    program = PROGRAMS[name]
    if isinstance(program, str):
        program = {"script": program}
    files = {"script.py": program.get("script", ""), **program.get("files", {})}
    for path, text in files.items():
        (starts.project / path).parent.mkdir(exist_ok=True)
        (starts.project / path).write_text(text)
    words = tuple(program.get("words", ["script.py"]))
    cold, warm = starts.run(words, starts.cold), starts.run(words, starts.warm)
    for path in files:
        (starts.project / path).unlink()
    assert starts.start.startswith("cold: " if program.get("cold") else "warm"), starts.start
    assert warm == cold


def test_a_parent_that_still_imports_is_not_waited_for(tmp_path: Path) -> None:
    here = Path.cwd()
    made = build_starts(tmp_path, ["slow"])
    begun = made.project / "begun"
    (made.project / "slow.py").write_text(
        f"import pathlib, time; pathlib.Path({str(begun)!r}).touch(); time.sleep(3600)"
    )
    made.parent.lead({**made.cold, "PYTHONPATH": str(made.project)})
    made.parent.tend(())
    wait_for(begun.exists, "the import")
    made.parent.let_go()
    os.chdir(here)
    wait_for(lambda: not [reap(), *list_marked(str(made.folder))][1:], "the parent's end")
    assert not (made.folder / "warm.starting").exists()


def test_a_warm_run_that_imports_nothing_more_leaves_the_list_as_it_is(tmp_path: Path) -> None:
    here = Path.cwd()
    made = build_starts(tmp_path, ["json"])
    made.parent.tend(())
    wait_for((made.folder / "warm.sock").exists, "the parent")
    status, _, errors = made.run(("-c", "import json"), made.warm)
    assert (status, errors, made.start) == (0, "", "warm")
    assert Path(made.warm["DEPLOYER_WARM_IMPORTS"]).read_text() == "json"
    made.parent.let_go()
    os.chdir(here)
    wait_for(lambda: not [reap(), *list_marked(str(made.folder))][1:], "the parent's end")
