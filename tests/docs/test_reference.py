"""docs/reference.md has everything that the code has, and says what it means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from deployer.backend.scheduling.lifecycle import Patience
from deployer.cli.shell.options import list_options
from deployer.config.settings import build_schema
from deployer.errors import DeployerError
from deployer.executors.registry import list_names
from tests.docs.commands import is_group, list_commands
from tests.docs.environment import GROUPS
from tests.docs.reference import PATH, build_reference, list_errors, list_settings

ROOT = Path(__file__).parents[2]
TEXT = PATH.read_text()
VARIABLE = re.compile(r"DEPLOYER_[A-Z_]+[A-Z]\b")
OF_PATIENCE = "DEPLOYER_BACKEND_"


def test_the_reference_is_not_stale() -> None:
    assert build_reference() == TEXT, "python -m tests.docs.reference writes it anew"


def test_every_command_and_flag_is_described() -> None:
    commands = [item for item in list_commands().items() if item[0] and not is_group(item[1])]
    faults = [fault for words, one in commands for fault in list_faults(" ".join(words), one)]
    assert len(commands) > 50
    assert faults == []


def list_faults(name: str, command: Any) -> Iterator[str]:
    """Yield what the reference does not say of a command and its flags."""
    if not command.help or f"### deployer {name}\n" not in TEXT:
        yield f"{name} is not described"
    part = TEXT.partition(f"### deployer {name}\n")[2].split("\n#")[0]
    for parameter in set(command.params).difference(list_options()):
        shown = parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[0]
        rows = [line for line in part.splitlines() if re.match(rf"\| `[^`]*{shown}\b", line)]
        if not parameter.help:
            yield f"{name} {shown} has no help"
        elif len(rows) != 1 or parameter.help.split("|")[0] not in rows[0]:
            yield f"{name} {shown} is not described"


def test_every_setting_is_described() -> None:
    schema = build_schema(list_names())
    settings = dict(list_settings(schema["properties"], schema["$defs"]))
    assert len(settings) > 50
    told = {name for name, one in settings.items() if one.get("description")}
    missing = [name for name in settings if name not in told or f"| `{name}` |" not in TEXT]
    assert missing == []


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
