"""A hundred sweep files of people in a hurry, and the very lines that are said about each.

`bad_sweeps.txt` has them: a name, the file, and behind five dashes what `deployer sweep check`
prints. `UPDATE_GOLDENS=1` writes the lines anew: read the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator

from deployer.cli.sweep.sweep_check import format_finding
from deployer.config.project import Flags
from deployer.errors import ConfigError
from deployer.launch.checks.sweep_check import check_file
from deployer.launch.environment import read_project
from deployer.sweeps.sweep_file import load_sweep
from deployer.sweeps.validation.json_schema import build_schema
from tests.golden_files import UPDATE

TABLE = Path(__file__).with_name("bad_sweeps.txt")
START, END = "=== ", "-----\n"
# What a schema cannot say: two values compared, sums, YAML's own readings, sizes, files.
BEYOND_SCHEMAS = frozenset(
    (
        *("bounds-equal", "bounds-swapped", "bounds-swapped-nested", "bounds-mixed"),
        *("bounds-infinite", "exponents-too-large", "probabilities-sum", "probabilities-count"),
        *("grid-continuous", "grid-nested", "grid-probabilities"),
        *("name-is-boolean", "name-is-number", "yaml-set"),
        *("command-of-flags", "command-of-flags-to-python", "program-notebook", "program-module"),
        *("program-with-flags", "program-with-own-flags", "method-custom"),
        "launch-job-of-command",
        *("command-of-assignment", "command-of-assignment-in-one-word", "controller-local"),
        *("program-missing-file", "program-of-command", "macro-unknown", "macro-parameter"),
    )
)


def read_cases() -> dict[str, tuple[str, str]]:
    """Return name: (file, expected lines)."""
    parts = TABLE.read_text(encoding="utf-8").split(START)[1:]
    cases = {}
    for part in parts:
        name, _, rest = part.partition("\n")
        text, _, lines = rest.partition(END)
        cases[name] = (text, lines.strip())
    return cases


CASES = read_cases()
VALIDATOR = Draft7Validator(build_schema())


def check_text(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(folder)
    Path("train.py").touch()
    Path("s.yaml").write_text(text, encoding="utf-8")
    project = read_project(Flags(wandb="embedded"), folder)
    found = check_file(Path("s.yaml"), project, ask=False).findings
    return "\n".join(map(format_finding, found)).replace(str(folder), "FOLDER")


@pytest.mark.parametrize("name", CASES)
def test_what_is_said(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, expected = CASES[name]
    assert check_text(text, tmp_path, monkeypatch) == expected


def test_the_table_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = "\n".join(
        f"{START}{name}\n{text}{END}{check_text(text, tmp_path, monkeypatch)}\n"
        for name, (text, _) in CASES.items()
    )
    if UPDATE:
        TABLE.write_text(table, encoding="utf-8")
    assert table == TABLE.read_text(encoding="utf-8")


def test_there_are_a_hundred() -> None:
    assert len(CASES) >= 100
    assert all(lines for _, lines in CASES.values())


@pytest.mark.parametrize("name", CASES)
def test_the_command_refuses_what_up_refuses(name: str, tmp_path: Path) -> None:
    text, lines = CASES[name]
    file = tmp_path / "s.yaml"
    file.write_text(text, encoding="utf-8")
    elsewhere = "file not found" in lines or "serves no local controller" in lines
    refused = ": error: " in lines and not elsewhere
    try:
        load_sweep(file)
    except ConfigError:
        assert refused
    else:
        assert not refused


@pytest.mark.parametrize("name", [n for n, (_, lines) in CASES.items() if ": error: " in lines])
def test_the_schema_refuses_what_it_can(name: str) -> None:
    text, lines = CASES[name]
    if "unreadable YAML" in lines or "is read as a date" in lines:
        return  # not a file for a schema
    assert VALIDATOR.is_valid(yaml.safe_load(text)) == (name in BEYOND_SCHEMAS)
