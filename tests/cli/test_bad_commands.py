"""Commands of people in a hurry, and the very words that each is refused with.

`bad_commands.txt` has them: a name, files (`> NAME`, then its lines), the command as a shell has
it, and behind five dashes the exit code and what stands on stderr. `UPDATE_GOLDENS=1` writes the
words anew: read the diff. SERVER is a W&B server that answers, and the default.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from deployer.__main__ import run
from tests.cli.conftest import drop_waits
from tests.conftest import ServedBackend
from tests.golden_files import UPDATE

TABLE = Path(__file__).with_name("bad_commands.txt")
START, FILE, COMMAND, END = "=== ", "> ", "$ ", "----- exit "
GRID = "program: train.py\nmethod: grid\nparameters: {lr: {values: [1, 2]}}\n"
OUTSIDE = ("KUBECONFIG", "GOOGLE_APPLICATION_CREDENTIALS", "KUBERNETES_SERVICE_HOST")


@dataclass(frozen=True)
class Case:
    """A command line with the files that it meets, and what must come of it."""

    name: str
    files: dict[str, str]
    command: str
    exit_code: int
    words: str

    def write(self, exit_code: int, words: str) -> str:
        """Return the case as the table has it, with these words."""
        files = "".join(f"{FILE}{name}\n{text}" for name, text in self.files.items())
        head = f"{START}{self.name}\n{files}{COMMAND}{self.command}\n"
        return f"{head}{END}{exit_code}\n{words}\n"


def read_case(text: str) -> Case:
    """Return the case of one part of the table."""
    name, _, rest = text.partition("\n")
    given, _, expected = rest.partition(END)
    before, _, command = f"\n{given}".partition(f"\n{COMMAND}")
    parts = [part.partition("\n") for part in before.split(f"\n{FILE}")[1:]]
    files = {name: f"{text}\n" if text else "" for name, _, text in parts}
    code, _, words = expected.partition("\n")
    return Case(name, files, command.strip(), int(code or 0), words.strip())


CASES = [read_case(text) for text in TABLE.read_text(encoding="utf-8").split(START)[1:]]


@pytest.fixture(autouse=True)
def folder(backend: ServedBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").touch()
    (folder / "grid.yaml").write_text(GRID)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    for name in OUTSIDE:
        monkeypatch.delenv(name, raising=False)
    for name, value in backend.environment.items():
        monkeypatch.setenv(name, value)
    return folder


def say(
    case: Case,
    folder: Path,
    backend: ServedBackend,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> tuple[int, str]:
    """Run a case's command in this process; return its exit code and its words."""
    for name, text in case.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    words = shlex.split(case.command.replace("SERVER", backend.url))
    while re.match(r"[A-Z_]+=", words[0]):
        monkeypatch.setenv(*words.pop(0).split("=", 1))
    code = run(words[1:])
    out, err = capsys.readouterr()
    assert out == "", case.command
    places = {str(folder): "FOLDER", str(folder.parent): "TMP", os.environ["HOME"]: "HOME"}
    for place, name in {backend.url: "SERVER", **places}.items():
        err = err.replace(place, name)
    return code, drop_waits(err).strip()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_said(
    case: Case,
    folder: Path,
    backend: ServedBackend,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, words = say(case, folder, backend, monkeypatch, capsys)
    if UPDATE:
        text = TABLE.read_text(encoding="utf-8")
        parts = [f"{START}{part}" for part in text.split(START)[1:]]
        number = [one.name for one in CASES].index(case.name)
        parts[number] = case.write(code, words) + "\n"
        TABLE.write_text("".join(parts), encoding="utf-8")
        return
    assert (code, words) == (case.exit_code, case.words)


def test_each_is_an_error_and_what_to_do() -> None:
    """In JSON, too; what was told before it may stand in front."""
    for case in CASES:
        *_, error, hint = ["", *case.words.splitlines()]
        assert case.exit_code in (1, 2), case.name
        if hint.startswith("{"):
            assert json.loads(hint)["error"]["hint"], case.name
        else:
            assert error.startswith("error: "), case.name
            assert hint.removeprefix("hint: ").strip() not in ("", hint), case.name


def test_there_are_a_hundred() -> None:
    assert len(CASES) >= 100
    assert len({case.name for case in CASES}) == len(CASES)
