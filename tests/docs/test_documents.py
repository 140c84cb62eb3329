"""What holds for every document: links lead somewhere, commands and flags exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.commands import is_group, list_commands

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "skills", "sweeps")
DOCUMENTS = sorted(
    (*ROOT.glob("*.md"), *(p for one in FOLDERS for p in (ROOT / one).rglob("*.md")))
)
MAPS = [path for path in DOCUMENTS if path.name == "CONTRIBUTING.md" or "decisions" in path.parts]
SOURCES = sorted((ROOT / "deployer").rglob("*.py"))
COMMANDS = list_commands()
CODE = re.compile(r"```(?:sh|text)\n(.*?)```|`([^`\n]+)`", re.DOTALL)
# Commands stand at the beginning of a hint or after a mark; in prose the word has words before it.
HINT = re.compile(r"(?:^|[;:,(`] ?|then )(deployer [a-z][^;,:.|)(`\n]*)")
PATH = re.compile(r"`((?:[\w.-]+/)+(?:[\w.-]+\.(?:py|js|yaml|md|graphql))?|\w+\.py)`")
ROOTS = (ROOT, ROOT / "deployer", ROOT / "deployer" / "backend")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def read_commands(text: str) -> Iterator[str]:
    """Yield the commands in a document's code, each from the word `deployer` on."""
    for block, inline in CODE.findall(text):
        for line in (block or inline).splitlines():
            yield from re.findall(r"(?:^|[;|(] *|, )(deployer [a-z][^;|#)]*)", line)


def find_fault(line: str) -> str:
    """Return what is wrong with a command, empty if every word and flag exists."""
    words = re.split("[,…]| -- ", line)[0].split()[1:]  # behind `--` are another program's
    known: tuple[str, ...] = ()
    while words and (*known, words[0]) in COMMANDS:
        known = (*known, words.pop(0))
    if words and is_group(COMMANDS[known]):
        return f"{line}: there is no command {words[0]}"
    flags = [word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    missing = [flag for flag in flags if flag not in list_flags(COMMANDS[known])]
    return f"{line}: there is no flag {missing[0]}" if missing else ""


def list_flags(command: Any) -> set[str]:
    """Return the flags of a command."""
    return {option for parameter in command.params for option in parameter.opts} | {"--help"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    links = LINK.findall(path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", MAPS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_that_the_map_names_exists(path: Path) -> None:
    named = PATH.findall(path.read_text())
    missing = [one for one in named if not any((root / one).exists() for root in ROOTS)]
    assert [one for one in missing if "NAME" not in one] == []


def test_the_map_fits_on_two_pages() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) <= 120


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_in_a_document_exists(path: Path) -> None:
    faults = (find_fault(line) for line in read_commands(path.read_text()))
    assert [fault for fault in faults if fault] == []


def test_every_command_in_a_message_exists() -> None:
    # Most files have no command in them and need not be parsed.
    sources = [text for path in SOURCES if "deployer " in (text := path.read_text())]
    said = {
        line
        for text in sources
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for line in HINT.findall(node.value)
    }
    assert len(said) > 50
    assert [fault for line in sorted(said) if (fault := find_fault(line))] == []
