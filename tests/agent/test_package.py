"""The supervisor's code must run alone in any image: Python 3.8, standard library, one zip file."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import deployer.agent
from deployer.agent.exit_codes import MISCONFIGURED
from deployer.executors.kubernetes.agents.objects import SUPERVISOR_SAID
from deployer.images.code_archive import build_supervisor_zip

FOLDER = Path(deployer.agent.__file__).parent
SOURCES = sorted(FOLDER.rglob("*.py"))
# Python 3.8 lacks these, and 3.12 and 3.13 dropped some that it has.
YOUNGER = {
    "annotationlib",
    "compression",
    "graphlib",
    "tomllib",
    "zoneinfo",
}
DROPPED = {
    "asynchat",
    "asyncore",
    "cgi",
    "cgitb",
    "crypt",
    "distutils",
    "imp",
    "pipes",
    "telnetlib",
}


# The launcher is wandb's command line with a shorter wait; the others are asked for by `metrics:`.
OTHERS = {("launcher.py", "wandb"), ("metric_wrapper.py", "wandb")}


def test_every_file_is_python_3_8_and_imports_the_standard_library_alone() -> None:
    assert SOURCES
    for source in SOURCES:
        tree = ast.parse(source.read_text(), feature_version=(3, 8))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module)]
            for name in names:
                package = name.partition(".")[0]
                known = package in sys.stdlib_module_names - YOUNGER - DROPPED
                assert known or (source.name, package) in OTHERS, f"{source}: {name}"


def test_it_runs_from_a_zip_file_without_any_package(tmp_path: Path) -> None:
    packed = tmp_path / "agent.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for source in SOURCES:
            archive.write(source, f"agent/{source.relative_to(FOLDER)}")
        archive.writestr(
            "__main__.py", "import sys\nfrom agent.__main__ import main\nsys.exit(main())"
        )
    folder = tmp_path / "folder"
    command = [sys.executable, "-I", "-S", str(packed), "me/proj/sweep", "--folder", str(folder)]
    last_words = tmp_path / "termination-log"
    environment = {"WANDB_API_KEY": "k" * 40, "DEPLOYER_TERMINATION_LOG": str(last_words)}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 78, answer.stderr
    assert "the package wandb is not installed for" in answer.stdout
    said = last_words.read_text()
    assert said.startswith("ended with exit code 78: the package wandb is not installed for")
    assert json.loads((folder / "status.json").read_text())["exit_code"] == 78


@pytest.mark.parametrize("version", [(2, 7, 18), (3, 6, 15), (3, 7, 17)])
def test_an_older_python_is_named(tmp_path: Path, version: tuple[int, int, int]) -> None:
    packed = tmp_path / "agent.zip"
    packed.write_bytes(build_supervisor_zip())
    code = f"import runpy, sys; sys.version_info = {version}; runpy.run_path({str(packed)!r})"
    command = [sys.executable, "-I", "-S", "-c", code]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == MISCONFIGURED
    said = SUPERVISOR_SAID.search(answer.stderr)
    assert said
    assert said.group(1).startswith(f"Python 3.8 or newer is needed, and {sys.executable} is")
