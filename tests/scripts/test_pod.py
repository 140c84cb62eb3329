"""What a pod says of a sweep whose script only its image has, asked with the supervisor's zip."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deployer.config.project import Project
from deployer.executors.plan import build_plan
from deployer.executors.registry import find_target
from deployer.images.code_archive import build_supervisor_zip
from deployer.launch.checks.script import add_script_check
from deployer.launch.request import Request
from deployer.scripts.rehearsal import process
from deployer.sweeps.sweep_file import parse_sweep
from tests.project_files import read_project
from tests.scripts.asking import RAN

HEAD = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', type=float)\n"
PARSE = "p.parse_args()\n"
PLAN = build_plan("team/digits/ab12cd34", "https://wandb.example", "", 1)
ASK = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from rehearsal.pod import check
print(json.dumps(check(sys.argv[2], dict(os.environ))))
"""
PASSES = ""

CASES = [
    ("right", HEAD + PARSE, "lr: {values: [0.1, 1]}", "", PASSES),
    (
        "unknown",
        HEAD + PARSE,
        "rate: {value: 1}",
        "",
        "s.yaml:3: parameters.rate: train.py: unrecognized arguments: --rate=1 (known: --lr)",
    ),
    (
        "type, late",
        HEAD + PARSE,
        "lr: {values: [1, x]}",
        "",
        "s.yaml:3: parameters.lr: train.py:3: argument --lr: invalid float value: 'x' "
        "(write numbers as its values)",
    ),
    (
        "missing",
        HEAD + "p.add_argument('--data', required=True)\n" + PARSE,
        "lr: {value: 1}",
        "",
        "s.yaml:3: parameters: train.py: the following arguments are required: --data "
        "(add data: {value: …}, or write the flag in command)",
    ),
    (
        "a module",
        "",
        "lr: {value: x}",
        "[python, -m, pkg.fit, '${args}']",
        "s.yaml:3: parameters.lr: pkg/fit.py:3: argument --lr: invalid float value: 'x' "
        "(write numbers as its values)",
    ),
    (
        "a refusal that the script survives",
        HEAD + "try:\n    p.parse_args()\nexcept SystemExit:\n    pass\n",
        "rl: {value: 1}",
        "",
        PASSES,
    ),
    (
        "a GPU that is not seen",
        HEAD.replace("float", "int").replace("lr", "gpu") + PARSE,
        "gpu: {value: x}",
        "",
        PASSES,
    ),
    (
        "no parser",
        "open('worked', 'w')\n",
        "lr: {value: 1}",
        "",
        "not checked: it ends with exit code 0 before it has parsed its flags",
    ),
    (
        "an error before",
        "raise ValueError('Unknown config key')\n",
        "lr: {value: 1}",
        "",
        "not checked: train.py:1: ValueError: Unknown config key",
    ),
    (
        "a package that is missing",
        "import argparse, nothing_here\n",
        "lr: {value: 1}",
        "",
        "s.yaml:3: parameters: train.py:1: the script's Python has no module nothing_here "
        "(install it: python -m pip install nothing_here)",
    ),
    (
        "the environment",
        HEAD + PARSE,
        "lr: {value: x}",
        "[python, train.py, '--n=${envvar:N}', '${args}']",
        "not checked: its command takes words from the environment",
    ),
    (
        "another program",
        HEAD + PARSE,
        "lr: {value: x}",
        "[bash, run.sh, '${args}']",
        "s.yaml:3: parameters: bash: run.sh: No such file or directory "
        "(install it, or name another program in command)",
    ),
    (
        "no script",
        "",
        "lr: {value: x}",
        "[python, gone.py, '${args}']",
        "not checked: it ends with exit code 2 before it has parsed its flags",
    ),
]


def kubernetes_project(folder: Path, code: str) -> Project:
    (folder / "deployer.yaml").write_text(
        f"on: kubernetes\nkubernetes: {{image: trainer:1, code: {code}}}\n"
    )
    return read_project(folder)


def request_of(tmp_path: Path, parameters: str, command: str = "") -> Request:
    text = f"program: train.py\nmethod: grid\nparameters: {{{parameters}}}\n"
    sweep = parse_sweep(text + (f"command: {command}\n" if command else ""), "s.yaml")
    return Request(tmp_path / "s.yaml", sweep)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("zip") / "agent.zip"
    file.write_bytes(build_supervisor_zip())
    return file


@pytest.mark.parametrize(
    ("script", "parameters", "command", "said"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_what_a_pod_says(
    script: str, parameters: str, command: str, said: str, tmp_path: Path, packed: Path
) -> None:
    project = kubernetes_project(tmp_path, code="image")
    plan = add_script_check(PLAN, find_target(project), request_of(tmp_path, parameters, command))
    [(name, text)] = plan.agents[0].environment
    assert name == "DEPLOYER_SCRIPT_CHECK"
    folder = tmp_path / "image"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "__init__.py").write_text("")
    (folder / "pkg" / "fit.py").write_text(HEAD + PARSE + RAN)
    (folder / "train.py").write_text(script + RAN)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-c", ASK, str(packed), text],
        cwd=folder,
        env={"PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(answer.stdout)
    reason = f"not checked: {found['not_checked']}" if "not_checked" in found else ""
    assert (found.get("refused") or reason).replace(str(folder), "FOLDER") == said
    assert said == PASSES or not (folder / "ran").exists() or "exit code 0" in said


def test_it_is_not_sent_where_the_folder_was_asked_or_nobody_wants_it(tmp_path: Path) -> None:
    asked = request_of(tmp_path, "lr: {value: 1}")
    in_image = find_target(kubernetes_project(tmp_path, code="image"))
    archive = find_target(kubernetes_project(tmp_path, code="archive"))
    assert add_script_check(PLAN, archive, asked) is PLAN
    unwanted = Request(asked.file, asked.sweep, check_script=False)
    assert add_script_check(PLAN, in_image, unwanted) is PLAN


def test_a_long_list_is_cut_to_what_a_variable_holds(tmp_path: Path) -> None:
    in_image = find_target(kubernetes_project(tmp_path, code="image"))
    values = ", ".join(f"value-{n * 7919 % 100003}" for n in range(9000))
    sent = add_script_check(PLAN, in_image, request_of(tmp_path, f"lr: {{values: [{values}]}}"))
    assert 1000 < len(sent.agents[0].environment[0][1]) <= 16_000


def test_every_file_is_python_3_8_and_imports_the_standard_library_alone() -> None:
    for source in Path(process.__file__).parent.rglob("*.py"):
        tree = ast.parse(source.read_text(), feature_version=(3, 8))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module)]
            assert all(
                name.partition(".")[0] in sys.stdlib_module_names or name.startswith("deployer_")
                for name in names
            ), source
