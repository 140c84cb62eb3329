"""A hundred sweep files of people in a hurry, and the very lines that are said about each.

`bad_sweeps.txt` has them: a name, the file, and behind five dashes what `deployer sweep check`
prints. `UPDATE_GOLDENS=1` writes the lines anew: read the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.cli.sweep import format_finding
from deployer.config.project import Flags
from deployer.errors import ConfigError
from deployer.launch.request import read_project
from deployer.launch.script import check_file
from deployer.sweeps.sweep_file import load_sweep
from tests.golden_files import UPDATE

TABLE = Path(__file__).with_name("bad_sweeps.txt")
START, END = "=== ", "-----\n"


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
