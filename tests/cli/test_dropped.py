"""What the command line no longer has is refused with what to do instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.__main__ import run
from deployer.cli.shell.dropped import INSTEAD

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


@pytest.mark.parametrize("line", INSTEAD)
def test_the_refusal_says_what_to_do(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"deployer {line}: was removed\nhint: " in err
    assert " ".join(err.partition("hint: ")[2].split()) == INSTEAD[line]


@pytest.mark.parametrize("line", INSTEAD)
def test_the_changelog_says_the_same(line: str) -> None:
    assert f"| `deployer {line}` | {INSTEAD[line]} |" in CHANGELOG.read_text(encoding="utf-8")
