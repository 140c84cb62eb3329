"""A program that keeps a starting agent waiting is named."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.agent.conftest import Bench, wait_for

# As on a file system that does not answer, until the file `go` is there.
HANGING_GIT = """#!/bin/sh
while [ ! -e {go} ]; do sleep 0.1; done
exit 128
"""


@pytest.mark.full
def test_a_git_that_does_not_answer_is_named(bench: Bench, tmp_path: Path) -> None:
    programs, go = tmp_path / "programs", tmp_path / "answer"
    programs.mkdir()
    (programs / "git").write_text(HANGING_GIT.format(go=go))
    (programs / "git").chmod(0o755)
    path = (
        f"{programs}{os.pathsep}{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    )
    agent = bench.start(bench.create_sweep(), PATH=path)
    said = f"has not answered for 10 s in {bench.folder}"
    wait_for(lambda: agent.status and said in agent.status.reason, "the name of what it waits for")
    go.touch()
    wait_for(lambda: agent.status and agent.status.run_id, "its run")
    wait_for(lambda: agent.status and not agent.status.reason, "the end of the waiting")
    code, output = agent.wait()
    assert code == 0
    assert output.count(said) == 1
    assert "rev-parse --show-toplevel" in output
