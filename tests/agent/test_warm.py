"""Warm starts: a run that is forked cannot be told from one that is started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from deployer.agent.host.processes import list_marked, reap
from deployer.agent.settings import Settings
from deployer.agent.warm.parent import WarmParent, read_rest
from tests.agent.conftest import wait_for
from tests.agent.warm_starts import Starts, build_starts

PROGRAMS = yaml.safe_load(Path(__file__).with_name("warm_programs.yaml").read_text())
MODULES = [
    "importlib",
    "argparse",
    "json",
    "logging",
    "multiprocessing.pool",
    "inspect",
    "importlib.metadata",
    "numpy",
]


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starts]:
    here = Path.cwd()
    made = build_starts(tmp_path_factory.mktemp("warm"), MODULES)
    made.begin()
    yield made
    made.end()
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


def test_an_agent_without_a_parent_says_nothing_of_an_earlier_ones_run(tmp_path: Path) -> None:
    (tmp_path / "start").write_text("warm")
    parent = WarmParent(Settings("e/p/sweep", "http://127.0.0.1:1", "a1", str(tmp_path)))
    assert parent.lead(os.environ) == dict(os.environ)
    assert parent.read_start() == ""


def test_an_agent_says_why_it_has_no_parent(tmp_path: Path) -> None:
    once = Settings("e/p/sweep", "http://127.0.0.1:1", "a1", str(tmp_path), warm=True, count=1)
    parent = WarmParent(once)
    assert parent.lead(os.environ) == dict(os.environ)
    assert parent.read_start() == "cold: the agent takes one run"
    (tmp_path / "a2").mkdir()
    parent = WarmParent(replace(once, count=0, folder=str(tmp_path / "a2")), needed_bytes=1 << 60)
    Path(parent.lead(os.environ)["DEPLOYER_WARM_IMPORTS"]).write_text("json")
    parent.tend(())
    (tmp_path / "a2" / "start").write_text("cold: no parent yet")
    assert parent.read_start() == "cold: too little memory is free"


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


def test_what_a_library_counts_at_the_end_is_none_of_a_failing_runs(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    here = Path.cwd()
    made = build_starts(tmp_path, ["triton._C.libtriton"])
    made.begin()
    status, _, errors = made.run(("-c", "1 / 0"), made.warm)
    made.end()
    os.chdir(here)
    assert (status, made.start) == (1, "warm")
    assert errors.splitlines()[-1] == "ZeroDivisionError: division by zero"


def test_a_safe_path_is_one_without_the_scripts_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Path.cwd()
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    made = build_starts(tmp_path, ["json"])
    made.begin()
    (made.project / "script.py").write_text("import sys; print(sys.path)")
    for words in (("script.py",), ("-c", "import sys; print(sys.path)")):
        assert made.run(words, made.warm) == made.run(words, made.cold)
    made.end()
    os.chdir(here)
    assert made.start == "warm"


def test_what_a_group_has_read_from_files_is_free(tmp_path: Path) -> None:
    names = (str(tmp_path), "memory.max", "memory.current", "inactive_file")
    assert read_rest(*names) is None
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("90\n")
    (tmp_path / "memory.stat").write_text("anon 30\nfile 60\ninactive_file 50\n")
    assert read_rest(*names) is None
    (tmp_path / "memory.max").write_text("100\n")
    assert read_rest(*names) == 60
