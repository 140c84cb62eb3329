"""What `reproduce` finds, and refuses, before anything runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deployer.config.code import Code
from deployer.config.project import Flags
from deployer.errors import DeployerError
from deployer.executors.registry import find_executor
from deployer.images.code_state import read_state
from deployer.launch.environment import read_project
from deployer.launch.lock.content import Lock, dump_lock
from deployer.launch.lock.file import keep_lock
from deployer.launch.lock.reproduction import Again, prepare_again
from deployer.launch.lock.writing import list_apart, list_data
from deployer.sweeps.records import Records, SweepRecord
from tests.conftest import ServedBackend
from tests.outputs.conftest import Kept, folder, kept, make_sweep

__all__ = ("folder", "kept")  # fixtures
DATA = "data: {path: /data, folder: data}\n"


def write_lock(kept: Kept, name: str = "sweep.lock.yaml") -> Lock:
    """Write the lock file of a sweep that ran in its folder as it is now."""
    (kept.folder / "train.py").write_text("lr = 1\n")
    (kept.folder / "sweep.yaml").write_text("method: grid\n")
    project = read_project(Flags())
    apart = list_apart(project, Path("sweep.yaml"))
    lock = Lock(
        sweep=kept.path,
        server=project.wandb,
        file="sweep.yaml",
        on="local",
        config={},
        seeds={},
        code=read_state(Code(kept.folder), project.environment, apart),
        data=list_data(find_executor(project)),
    )
    (kept.folder / name).write_text(dump_lock(lock))
    return lock


def prepare(run: str = "best", text: str | None = "sweep.lock.yaml") -> Again:
    return prepare_again(read_project(Flags()), run, text, 0.1)


def refuse(run: str = "best", text: str | None = "sweep.lock.yaml") -> DeployerError:
    with pytest.raises(DeployerError) as raised:
        prepare(run, text)
    assert raised.value.hint
    return raised.value


def test_what_runs_and_data_write_is_no_part_of_the_code(kept: Kept) -> None:
    (kept.folder / "deployer.yaml").write_text(DATA)
    (kept.folder / "data").mkdir()
    (kept.folder / "data" / "x.bin").write_text("one")
    lock = write_lock(kept)
    assert list(lock.code.files) == ["train.py"]
    (kept.folder / "model.pt").write_text("a run wrote it")
    (kept.folder / "sweep.yaml").write_text("method: random\n")
    assert prepare().row.run_id == kept.runs[0]
    (kept.folder / "data" / "x.bin").write_text("two")
    assert refuse().message == "data set data: is not what it was: x.bin is another"
    (kept.folder / "data" / "y.bin").write_text("two")
    (kept.folder / "data" / "x.bin").write_text("one")
    assert refuse().message == "data set data: is not what it was: y.bin is new"
    (kept.folder / "deployer.yaml").unlink()
    assert refuse().message == "data set data: is not in deployer.yaml, and was when it ran"
    (kept.folder / "train.py").write_text("lr = 2\n")
    assert refuse().message == f"{kept.folder}: not as it ran: train.py is another"


def test_a_file_that_is_no_lock_file_says_what_it_is(kept: Kept) -> None:
    lock = write_lock(kept, "other.lock.yaml")
    for name, said in (
        ("none.yaml", "there is no such file"),
        ("none.lock.yaml", "there is no such file"),
        ("train.py", "is no lock file of deployer"),
        ("conda.lock.yaml", "is no lock file of deployer"),
        ("sweep.yaml", "has no lock file beside it"),
        (".", "is a folder"),
    ):
        (kept.folder / "conda.lock.yaml").write_text("version: 1\n")
        error = refuse(text=name)
        assert error.message == f"{name}: {said}"
        assert ("deployer up sweep.yaml" in error.hint) == (name == "sweep.yaml")
    record = SweepRecord("m", kept.path, lock.server, "", str(kept.folder), "sweep.yaml", "", 1.0)
    Records.load().add(record)
    keep_lock(dump_lock(lock), kept.path, lock.server)
    assert prepare(text="sweep.yaml").row.run_id == kept.runs[0]  # this machine's own copy


def test_a_sweep_that_is_gone_and_an_executor_that_nobody_knows(kept: Kept) -> None:
    lock = write_lock(kept)
    path = kept.folder / "sweep.lock.yaml"
    path.write_text(dump_lock(replace(lock, sweep="nobody/nothing/ab12cd34")))
    gone = refuse()
    assert "sweep.lock.yaml: its sweep nobody/nothing/ab12cd34 is not on" in gone.message
    assert "deployer up sweep.yaml runs it anew" in gone.hint
    path.write_text(dump_lock(replace(lock, on="mars")))
    assert refuse().message == "sweep.lock.yaml: on: 'mars' is not an executor"


def test_two_runs_of_one_title_are_told_apart_by_id(backend: ServedBackend, folder: Path) -> None:
    kept = make_sweep(backend, folder, ["twin", "twin"])
    write_lock(kept)
    error = refuse("twin")
    assert error.message == "twin: 2 runs have this title"
    assert all(run in error.hint for run in kept.runs)
    assert prepare(kept.runs[1]).row.run_id == kept.runs[1]
