"""`deployer sweep check` as a command: its lines, its JSON, its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deployer.__main__ import run as run_command

GOOD = "program: train.py\nmethod: grid\nparameters: {lr: {values: [1, 2]}}\n"
DOUBTFUL = GOOD.replace("[1, 2]", "[1e-5, 2]")
BAD = GOOD.replace("grid", "gird")
DOUBT = (
    "b.yaml:3:28: warning: parameters.lr.values[0]: '1e-5' is text, not a number"
    " (YAML 1.1 needs a dot: write 1.0e-5, or put it in quotes)"
)
WRONG = "c.yaml:2:1: error: method: 'gird' is not a method (did you mean grid?)"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    for name, text in (("a", GOOD), ("b", DOUBTFUL), ("c", BAD)):
        Path(f"{name}.yaml").write_text(text)


@pytest.mark.parametrize(
    ("words", "code", "lines", "summary"),
    [
        (["a.yaml"], 0, [], "1 file: 0 errors, 0 warnings"),
        (["a.yaml", "b.yaml"], 0, [DOUBT], "2 files: 0 errors, 1 warning"),
        (["--strict", "a.yaml", "b.yaml"], 2, [DOUBT], "2 files: 0 errors, 1 warning"),
        (["b.yaml", "c.yaml"], 2, [DOUBT, WRONG], "2 files: 1 error, 1 warning"),
        (
            ["nope.yaml", "a.yaml"],
            2,
            [
                "nope.yaml:1:1: error: cannot be read: no such file or directory"
                " (name a W&B sweep file; deployer init SCRIPT writes one)"
            ],
            "2 files: 1 error, 0 warnings",
        ),
    ],
)
def test_lines_and_exit_codes(
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    lines: list[str],
    summary: str,
) -> None:
    assert run_command(["sweep", "check", "--no-check", *words]) == code
    said = capsys.readouterr()
    assert said.out.splitlines() == lines
    assert said.err.splitlines() == [summary]


def test_the_script_is_asked_unless_that_is_not_wanted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("train.py").write_text(
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--rate')\n"
        "parser.parse_args()\n"
    )
    assert run_command(["sweep", "check", "a.yaml"]) == 2
    assert capsys.readouterr().out.startswith(
        "a.yaml:3:14: error: parameters.lr: train.py: unrecognized arguments: --lr=1"
    )
    assert run_command(["sweep", "check", "a.yaml", "--no-check"]) == 0


def test_json_has_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["sweep", "check", "b.yaml", "c.yaml", "-o", "json"]) == 2
    doubt, wrong = json.loads(capsys.readouterr().out)
    assert (doubt["file"], doubt["line"], doubt["severity"]) == ("b.yaml", 3, "warning")
    assert wrong == {
        "file": "c.yaml",
        "line": 2,
        "column": 1,
        "severity": "error",
        "path": "method",
        "message": "'gird' is not a method",
        "hint": "did you mean grid?",
    }


def test_a_cap_of_the_command_line_counts(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.yaml").write_text(GOOD.replace("grid", "random"))
    assert run_command(["sweep", "check", "a.yaml"]) == 2
    assert "run_cap: missing" in capsys.readouterr().out
    assert run_command(["sweep", "check", "a.yaml", "--run-cap", "3"]) == 0
