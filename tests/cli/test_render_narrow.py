"""What a terminal or a pipe shows whose encoding is not UTF-8."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deployer.cli.output.render import NAME, WORDS

ROOT = Path(__file__).parents[2]
SERVED = ("backend", "page", "report")  # which a browser shows


def encode(text: str, encoding: str = "ascii") -> str:
    return text.encode(encoding, NAME).decode(encoding)


def list_letters(source: Path) -> set[str]:
    tree = ast.parse(source.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {ast.get_docstring(n, clean=False) for n in ast.walk(tree) if isinstance(n, documented)}
    texts = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant))
    shown = (text for text in texts if isinstance(text, str) and text not in docs)
    return {one for text in shown for one in text if one > "\u00b0" and one.isprintable()}


def test_every_sign_of_ours_has_words() -> None:
    sources = [
        path
        for path in (ROOT / "deployer").rglob("*.py")
        if path.relative_to(ROOT / "deployer").parts[0] not in SERVED and path.stem != "narrow"
    ]
    signs = set().union(*map(list_letters, sources))
    assert "✗" in signs
    assert signs - WORDS.keys() == set()
    assert "?" not in WORDS.values()


def test_signs_that_mean_something_stay_apart() -> None:
    assert encode("✓ ✗ ? a … b → c") == "ok FAILED ? a ... b -> c"
    assert encode("± ✗", "latin-1") == "± FAILED"  # which has the first


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_the_doctor_says_ok_and_failed(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "deployer.yaml").write_text("local: {python: ./none}\n")
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C"}
    environment |= {"DEPLOYER_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "deployer", "doctor", "--wandb", "embedded"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        timeout=120,
    )
    lines = done.stdout.decode(encoding).splitlines()
    assert any(line.startswith("ok ") for line in lines), done.stderr
    assert any(line.startswith("FAILED ") for line in lines)
