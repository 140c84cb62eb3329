"""Reading a log while others write it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from deployer.agent.runs.local_runs import LONGEST_LINE_BYTES, LogReader, newest_run
from deployer.executors.local.agent_folder import AgentFolder, AgentSpec
from deployer.executors.local.executor import follow_lines


def test_lines_come_once_they_are_complete_and_what_was_there_before_is_not_read(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    log.write_text("from the agent's last life\n")
    reader = LogReader(str(log))
    with log.open("a") as file:
        file.write("one\ntwo\nthr")
        file.flush()
        assert list(reader.read_lines()) == ["one", "two"]
        file.write("ee\n")
        file.flush()
        assert list(reader.read_lines()) == ["three"]


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    log = tmp_path / "log"
    reader = LogReader(str(log))
    log.write_bytes(b"x" * (5 * LONGEST_LINE_BYTES) + b"END\n")
    [line] = reader.read_lines()
    assert line.endswith("xEND")
    assert len(line) <= 2 * LONGEST_LINE_BYTES


def test_every_byte_is_copied_also_to_a_reader_that_has_gone(tmp_path: Path) -> None:
    receiver, sender = os.pipe()
    reader = LogReader(str(tmp_path / "log"), copy_to=sender)
    (tmp_path / "log").write_bytes(b"a\nno end \xff")
    assert list(reader.read_lines()) == ["a"]
    assert os.read(receiver, 100) == b"a\nno end \xff"
    os.close(receiver)
    with (tmp_path / "log").open("ab") as file:
        file.write(b"\n")
    assert list(reader.read_lines()) == ["no end \ufffd"]
    os.close(sender)


def test_the_newest_parameter_file_names_the_run(tmp_path: Path) -> None:
    assert newest_run(str(tmp_path), "ab12") is None
    folder = tmp_path / "wandb" / "sweep-ab12"
    folder.mkdir(parents=True)
    for age, name in ((30, "config-zz-old.yaml"), (10, "config-my-run.yaml"), (5, "other.json")):
        (folder / name).touch()
        os.utime(folder / name, (time.time() - age, time.time() - age))
    assert newest_run(str(tmp_path), "ab12") == "my-run"


def test_a_log_that_ends_without_a_line_end_is_shown_to_its_last_word(tmp_path: Path) -> None:
    spec = AgentSpec("s-1", "me/proj/s", "http://127.0.0.1:1", "/", (), {}, 1.0, time.time())
    folder = AgentFolder(tmp_path, spec)
    assert list(follow_lines([folder], follow=True)) == []
    folder.log_path.write_bytes(b"one\r\ntwo\nKilled")
    expected = [("s-1", "one"), ("s-1", "two"), ("s-1", "Killed")]
    assert list(follow_lines([folder], follow=True)) == expected
