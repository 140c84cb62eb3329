"""docs/reference.md has everything that the code has, and says what it means."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from deployer.backend.scheduling.lifecycle import Patience
from deployer.config.json_schema import build_schema
from deployer.errors import DeployerError
from deployer.executors.registry import list_names
from tests.docs.commands import is_group, list_commands
from tests.docs.environment import GROUPS
from tests.docs.reference import PATH, build_reference, list_errors, list_settings

ROOT = Path(__file__).parents[2]
TEXT = PATH.read_text()
COMMANDS = [words for words, one in list_commands().items() if words and not is_group(one)]
SETTINGS = dict(
    list_settings(build_schema(list_names())["properties"], build_schema(list_names())["$defs"])
)
VARIABLE = re.compile(r"DEPLOYER_[A-Z_]+[A-Z]\b")
OF_PATIENCE = "DEPLOYER_BACKEND_"


def test_the_reference_is_not_stale() -> None:
    assert build_reference() == TEXT, "python -m tests.docs.reference writes it anew"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_and_flag_is_described(words: tuple[str, ...]) -> None:
    command = list_commands()[words]
    assert command.help
    part = TEXT.split(f"### deployer {' '.join(words)}\n")[1].split("\n#")[0]
    for parameter in command.params:
        assert parameter.help, f"{parameter.name} has no help"
        shown = parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[0]
        [row] = [line for line in part.splitlines() if re.match(rf"\| `[^`]*{shown}\b", line)]
        assert parameter.help.split("|")[0] in row


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_described(name: str) -> None:
    assert SETTINGS[name].get("description"), f"{name} has no description"
    assert f"| `{name}` |" in TEXT


def test_every_environment_variable_is_described_and_none_that_is_gone() -> None:
    sources = [path.read_text() for path in (ROOT / "deployer").rglob("*.py")]
    sources += [path.read_text() for path in (ROOT / "k8s").glob("*.yaml")]
    used = {name for text in sources for name in VARIABLE.findall(text)}
    used |= {f"{OF_PATIENCE}{field.name.upper()}" for field in fields(Patience)}
    told = {name for group in GROUPS.values() for name in group if name.startswith("DEPLOYER_")}
    assert told == used
    assert all(f"| `{name}` |" in TEXT for name in told)


def test_every_exit_code_is_described() -> None:
    part = TEXT.split("## Exit codes\n")[1]
    assert {kind.exit_code for kind in (DeployerError, *list_errors())} <= set(
        map(int, re.findall(r"\| `(\d+)` \|", part))
    )
