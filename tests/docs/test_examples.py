"""Every command has an example in its help, and the command line reads each of them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from deployer.__main__ import run as run_command
from deployer.cli.shell.usage import EXAMPLES
from deployer.executors.plan import build_plan
from tests.docs.commands import is_group, list_commands

COMMANDS = {words: one for words, one in list_commands().items() if words and not is_group(one)}


# Commands without `-o json`, and why that is so.
WITHOUT_JSON = {
    "backend copy": "tells how far it is",
    "backend open": "its result is an address",
    "backend serve": "lasts until it is stopped",
    "drivers install": "tells how far it is; drivers status has the result",
    "drivers remove": "drivers status has the result",
    "init": "its results are files",
    "report": "its result is a page; results, importance have JSON",
    "rights": "its result is YAML for kubectl",
    "sweep export": "its result is a file, JSON if it is named so",
    "sweep import": "its result is a file",
}


def test_commands_with_a_result_have_it_as_json() -> None:
    without = {
        " ".join(words)
        for words, one in COMMANDS.items()
        if not any("--output" in parameter.opts for parameter in one.params)
    }
    assert without == WITHOUT_JSON.keys()


def test_every_command_has_examples() -> None:
    assert EXAMPLES.keys() == COMMANDS.keys()


@pytest.mark.parametrize(
    ("words", "example"), [(words, one) for words, many in EXAMPLES.items() for one in many]
)
def test_an_example_is_a_command_line(words: tuple[str, ...], example: str) -> None:
    typed = example.split()
    assert tuple(typed[: len(words)]) == words
    COMMANDS[words].make_context(words[-1], typed[len(words) :])


def test_examples_name_agents_as_they_are_named() -> None:
    typed = [one.split() for many in EXAMPLES.values() for one in many]
    named = [after for words in typed for before, after in pairwise(words) if before == "--agent"]
    known = {agent.name for agent in build_plan("me/digits/ab12cd34", "", "", 9).agents}
    assert named
    assert set(named) <= known


def test_help_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["backend", "user", "add", "--help"]) == 0
    assert capsys.readouterr().out.endswith("deployer backend user add ann --key-stdin\n")
    assert run_command(["results", "get", "--help"]) == 0
    assert "deployer results get --best" in capsys.readouterr().out
