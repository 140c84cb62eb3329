"""The first run of a sweep is warm: by the agent's own import of the SDK, and by its script."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployer.agent.host.processes import list_marked, read_process, reap
from deployer.agent.warm.likely import look_at
from tests.agent.conftest import wait_for
from tests.agent.warm_starts import Starts, build_starts

PROJECT = {
    "train.py": """
import argparse
from typing import TYPE_CHECKING
from package import model
if TYPE_CHECKING:
    import pandas
def main():
    import torch
""",
    "package/__init__.py": "from .data import load",
    "package/data.py": "import numpy.random\ndef load():\n    import torchvision",
    "package/model.py": "from . import data\nfrom package import layers",
    "package/layers.py": "import scipy.stats as stats",
}
SETTING = ('os.environ["A"] = "1"', 'environ.setdefault("A", "1")', "os.putenv('A', '1')")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, source in PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source)
    return tmp_path


def test_what_a_script_will_import_is_read_in_its_project(project: Path) -> None:
    names, _ = look_at("train.py", str(project))
    assert set(names) == {"argparse", "typing", "torch", "numpy", "scipy"}


def test_each_file_of_the_project_counts(project: Path) -> None:
    before = look_at("train.py", str(project))[1]
    (project / "package" / "layers.py").write_text("import scipy")
    assert look_at("train.py", str(project))[1] != before


@pytest.mark.parametrize("line", SETTING)
def test_nothing_is_foretold_of_a_script_that_changes_the_environment(
    project: Path, line: str
) -> None:
    (project / "package" / "layers.py").write_text(line)
    assert look_at("train.py", str(project))[0] == []


def test_a_script_that_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    assert look_at("missing.py", str(tmp_path)) == ([], 0)
    (tmp_path / "broken.py").write_text("x = = 1")
    assert look_at("broken.py", str(tmp_path))[0] == []


@pytest.fixture
def starts(tmp_path: Path) -> Iterator[Starts]:
    here = Path.cwd()
    made = build_starts(tmp_path)
    yield made
    made.end()
    os.chdir(here)


def begin(starts: Starts) -> int:
    """Start an agent, whose server is away, and wait until its parent serves; return its id."""
    log = os.open(starts.folder / "log", os.O_WRONLY | os.O_CREAT)
    agent = starts.parent.start_agent(starts.cold, log)
    os.close(log)
    wait_for(starts.serves, "the parent")
    starts.parent.tend(())
    return agent


def run(starts: Starts, script: str) -> tuple[str, str]:
    (starts.project / "script.py").write_text(script)
    code, out, err = starts.run(("script.py",), starts.warm)
    assert code == 0, err
    return out, err


CHANGING = """
import os
os.environ["OMP_NUM_THREADS"] = "2"
import numpy
print(numpy.__name__)
"""


def test_an_agent_and_its_parent_import_the_sdk_once(starts: Starts) -> None:
    agent = begin(starts)
    kept = Path(starts.warm["DEPLOYER_WARM_IMPORTS"])
    assert not kept.exists()
    assert run(starts, "import sys, wandb; print('numpy' in sys.modules)") == ("True\n", "")
    assert starts.start == "warm"
    script = "import sys, typing_extensions; print('wandb' in sys.modules)"
    assert run(starts, script) == ("False\n", "")
    parents = [p for p in list_marked(str(starts.folder)) if p.name == "warm-parent"]
    assert [p.id == p.session for p in parents] == [True]
    os.kill(agent, signal.SIGKILL)  # the parent is not its child
    assert run(starts, "import wandb")[1] == ""
    assert starts.start == "warm"


def test_what_was_assumed_wrongly_is_known_to_the_next_parent(starts: Starts) -> None:
    os.kill(begin(starts), signal.SIGKILL)
    parents = {p.id for p in list_marked(str(starts.folder)) if p.name == "warm-parent"}
    out, err = run(starts, CHANGING)
    assert out == "numpy\n"
    assert "numpy: OMP_NUM_THREADS was changed before its import; the run starts over" in err
    assert starts.read_unfit() == {}
    assert run(starts, CHANGING) == ("numpy\n", "")
    assert starts.start == "cold: imports were not as assumed"
    wait_for(lambda: not any(map(read_process, parents)) or reap(), "the parent's end")
    starts.parent.tend(parents)
    wait_for(starts.serves, "another parent")
    assert run(starts, CHANGING) == ("numpy\n", "")
    assert starts.start == "warm"
