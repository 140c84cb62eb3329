"""What is said about a module that the Python of a script does not find."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deployer.scripts.missing_modules import list_remedies
from tests.scripts.asking import RIGHT, ask


@pytest.mark.parametrize(
    ("module", "hint"),
    [
        ("nowhere", "install the package that provides nowhere"),
        ("sklearn.nowhere", "install the package that provides sklearn.nowhere"),
        ("datasets", "install the package that provides datasets"),
        ("apex", "NVIDIA's apex is built from its sources: https://github.com/NVIDIA/apex"),
        ("helpers", "it is in the project: export PYTHONPATH={folder}:/mine"),
        ("mypkg", "it is in the project: export PYTHONPATH={folder}/src:/mine"),
        ("mypkg.inner", "src/mypkg has no mypkg.inner: fix the import, or add the file"),
        ("yaml", "it is in the project: export PYTHONPATH='{folder}/third party:/mine'"),
    ],
)
def test_only_packages_that_are_known_get_a_command(module: str, hint: str, tmp_path: Path) -> None:
    for file in ("helpers.py", "src/mypkg/__init__.py", "datasets/a.csv", "third party/yaml/a.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    found = list_remedies([module], sys.executable, tmp_path, {"PYTHONPATH": "/mine"})
    assert found == {hint.format(folder=tmp_path): [module]}


@pytest.mark.parametrize(
    ("code", "others", "install"),
    [
        (0, ["uv"], "{python} -m pip install"),
        (1, ["uv"], "uv pip install --python {python}"),
        (1, [], "{python} -m ensurepip && {python} -m pip install"),
    ],
)
def test_packages_are_installed_by_their_names_into_the_python_that_misses_them(
    code: int, others: list[str], install: str, tmp_path: Path
) -> None:
    for name in ("python", *others):
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (tmp_path / name).chmod(0o755)
    modules = ["umap", "skimage", "yaml", "faiss", "numpy", "pkg_resources", "nowhere"]
    python = str(tmp_path / "python")
    found = list_remedies(modules, python, tmp_path, {"PATH": str(tmp_path)})
    packages = "umap-learn scikit-image pyyaml faiss-cpu numpy 'setuptools<82'"
    assert found == {
        "install the package that provides nowhere": ["nowhere"],
        f"{install.format(python=python)} {packages}": modules[:-1],
    }


def test_a_script_finds_a_module_of_the_project_where_the_hint_says(tmp_path: Path) -> None:
    files = {"src/own.py": "", "run/go.py": "import own, argparse\n"}
    files["run/go.py"] += "p = argparse.ArgumentParser()\np.add_argument('--lr')\np.parse_args()\n"
    command = "[python, run/go.py, '${args}']"
    [said] = ask(tmp_path, "", RIGHT, command=command, files=files)
    assert said == (
        "program: run/go.py:1: the script's Python has no module own | "
        f"it is in the project: export PYTHONPATH={tmp_path}/src"
    )
    path = said.partition("PYTHONPATH=")[2]
    assert ask(tmp_path, "", RIGHT, command=command, files=files, PYTHONPATH=path) == []
