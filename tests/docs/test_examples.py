"""Every command has an example in its help, and the command line reads each of them."""

from __future__ import annotations

import pytest

from deployer.__main__ import run as run_command
from deployer.cli.examples import EXAMPLES
from tests.docs.commands import is_group, list_commands

COMMANDS = {words: one for words, one in list_commands().items() if words and not is_group(one)}


def test_every_command_has_examples() -> None:
    assert EXAMPLES.keys() == COMMANDS.keys()


@pytest.mark.parametrize(
    ("words", "example"), [(words, one) for words, many in EXAMPLES.items() for one in many]
)
def test_an_example_is_a_command_line(words: tuple[str, ...], example: str) -> None:
    typed = example.split()
    assert tuple(typed[: len(words)]) == words
    COMMANDS[words].make_context(words[-1], typed[len(words) :])


def test_help_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["backend", "user", "add", "--help"]) == 0
    assert capsys.readouterr().out.endswith("deployer backend user add ann --key-stdin\n")
    assert run_command(["results", "get", "--help"]) == 0
    assert "deployer results get --best" in capsys.readouterr().out
