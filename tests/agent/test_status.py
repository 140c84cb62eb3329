"""What a supervisor says about itself, also where there is no room to say it."""

from __future__ import annotations

import os
from pathlib import Path

from deployer.agent.host.status import StatusFile, hold_lock, is_locked, load_status
from deployer.agent.settings import AgentSettings
from tests.faults.disk import unwritable


def test_the_end_is_said_where_no_new_file_can_be_written(tmp_path: Path) -> None:
    """As on a full disk: what is there is overwritten in its place, and needs no more room."""
    settings = AgentSettings("e/p/s", "http://127.0.0.1:1", "a", str(tmp_path))
    file = StatusFile(settings)
    size = Path(settings.status_path).stat().st_size
    Path(f"{settings.status_path}.new").mkdir()
    file.change(state="ended", exit_code=1, reason="its agent ended", run_id="r" * 300)
    assert Path(settings.status_path).stat().st_size == size
    assert load_status(settings.status_path) == file.status
    file.change(run_id=None)
    assert load_status(settings.status_path) == file.status


def test_what_could_not_be_said_is_said_later(tmp_path: Path) -> None:
    settings = AgentSettings("e/p/s", "http://127.0.0.1:1", "a", str(tmp_path))
    file = StatusFile(settings)
    with unwritable(tmp_path):
        file.change(run_id="run-1")
        assert load_status(settings.status_path) != file.status
    file.change(run_id="run-1")
    assert load_status(settings.status_path) == file.status


def test_a_lock_is_seen_in_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    held = hold_lock(str(tmp_path / "lock"))
    assert held is not None
    with unwritable(tmp_path):
        assert is_locked(str(tmp_path / "lock"))
        os.close(held)
        assert not is_locked(str(tmp_path / "lock"))
