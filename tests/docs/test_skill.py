"""The skill for coding agents: its example runs, and what it says of JSON and exit codes is so."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from deployer.errors import ExitCode
from tests.recipes.readme import Recipe
from tests.recipes.test_five_minutes import FILE

ROOT = Path(__file__).parents[2]
SKILL = ROOT / "skills" / "deployer" / "SKILL.md"
TEXT = SKILL.read_text()
_, HEAD, BODY = TEXT.split("---\n", 2)
KEYS = (ROOT / "tests" / "goldens" / "output_keys" / "server.txt").read_text()


def test_it_is_short_and_says_when_to_use_it() -> None:
    head = yaml.safe_load(HEAD)
    assert head.keys() == {"name", "description"}
    assert head["name"] == SKILL.parent.name
    assert len(head["description"]) <= 1024
    assert len(TEXT.splitlines()) <= 80


def test_every_key_it_names_is_in_the_json() -> None:
    [results] = re.findall(r"^results -o json\n(.*?)\n\n", KEYS, re.DOTALL | re.MULTILINE)
    known = {line.strip().partition(":")[0] for line in results.splitlines()}
    rows = re.findall(r"^\| (`[^|]*) \|", BODY, re.MULTILINE)
    named = [key for row in rows for key in re.findall("`(.*?)`", row)]
    assert len(named) > 10
    missing = [key for key in named if not any(re.match(rf"{re.escape(key)}\b", k) for k in known)]
    assert missing == []
    [check] = re.findall(r"^sweep check -o json\n(.*?)\n\n", KEYS, re.DOTALL | re.MULTILINE)
    [fields] = re.findall(r"`\{(file, .*?)\}`", BODY)
    told = {line.strip().partition(":")[0] for line in check.splitlines()}
    assert {f"[].{name}" for name in fields.split(", ")} == told


def test_it_has_every_exit_code() -> None:
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", BODY, re.MULTILINE)]
    assert codes == list(ExitCode)


@pytest.mark.slow
def test_its_example_runs(tmp_path: Path) -> None:
    shutil.copy(SKILL, tmp_path / "README.md")
    for file in FILE.finditer(TEXT):
        (tmp_path / file["name"]).write_text(file["text"])
    example = Recipe(tmp_path)
    said = example.run_blocks("2. Check, run, read")
    assert "4/4 configurations finished, 0 duplicates, 0 lost" in said
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["coverage"]["complete"]
    assert results["best"]["parameters"] == {"lr": 0.4, "width": 32}
    again = example.try_to_run("deployer up sweep.yaml --replicas 2 --plain -o json")
    assert again.returncode == ExitCode.WRONG_INPUT
    assert "--new" in json.loads(again.stdout)["error"]["hint"]
    example.run("deployer down --all")
