"""`up` says that a script is slow to answer, or why it is not checked."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from pathlib import Path

import pytest

from deployer.executors.registry import find_executor
from deployer.launch import script
from deployer.launch.request import SweepRequest
from deployer.launch.script import ask_script, await_report
from deployer.scripts.script_check import Report
from deployer.sweeps.sweep_file import parse_sweep
from tests.project_files import read_project


def test_a_slow_script_is_named(told: list[str]) -> None:
    file = Path("sweep.yaml")
    future: Future[Report] = Future()

    def answer(_record: logging.LogRecord) -> bool:
        future.set_result(Report(not_checked="no reason"))
        return True

    script.LOG.addFilter(answer)
    try:
        assert await_report(future, file, patience=0.0).not_checked == "no reason"
    finally:
        script.LOG.removeFilter(answer)
    assert told == ["sweep.yaml: checking the flags with its script"]
    assert await_report(future, file).not_checked == "no reason"


@pytest.mark.parametrize("code", ["image", "archive"])
def test_code_in_an_image_is_not_checked(code: str, tmp_path: Path) -> None:
    (tmp_path / "deployer.yaml").write_text(
        f"on: kubernetes\nkubernetes: {{image: trainer:1, code: {code}}}\n"
    )
    sweep = parse_sweep("program: train.py\nmethod: grid\nparameters: {lr: {value: 1}}\n", "s.yaml")
    project, request = read_project(tmp_path), SweepRequest(tmp_path / "s.yaml", sweep)
    report = ask_script(find_executor(project), request)
    assert (report.not_checked == "the code is in the image") is (code == "image")
