"""What is preloaded for a script is read from its text."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.agent.warm.fork_server import find_device
from deployer.agent.warm.parent import read_script

PROJECT = {
    "train.py": """
import argparse
from typing import TYPE_CHECKING
from package import model
if TYPE_CHECKING:
    import torchvision
def main():
    import torch
""",
    "package/__init__.py": "from .data import load",
    "package/data.py": "import numpy.random\ndef load():\n    import torchvision",
    "package/model.py": "from . import data\nfrom package import layers",
    "package/layers.py": "import scipy.stats as stats, wandb",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, source in PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source)
    return tmp_path


def test_what_a_script_imports_is_read_in_its_project(project: Path) -> None:
    assert read_script("train.py", str(project), ("sklearn",)) == (
        ["numpy", "wandb", "torch", "sklearn"],
        "",
    )


@pytest.mark.parametrize(
    ("text", "packages"),
    [
        ("import torch", ["torch"]),
        ("from torch.optim import SGD", ["torch", "torch._dynamo"]),
        ("import torch as t\nt.optim.SGD", ["torch", "torch._dynamo"]),
        ("import numpy\nimport os\nos.environ['A'] = '1'", ["numpy"]),
        ("import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\nimport numpy", ["numpy"]),
        ("import os\nos.environ.setdefault('WANDB_MODE', 'x')\nimport wandb", ["wandb"]),
        ("import os\nprint(os.environ['A'])\nimport wandb", ["wandb"]),
    ],
)
def test_packages_of_a_text(text: str, packages: list[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(text)
    assert read_script("train.py", str(tmp_path), ()) == (packages, "")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('os.environ["A"] = "1"', "A"),
        ("os.environ[name] = '1'", "the environment"),
        ('environ.setdefault("A", "1")', "A"),
        ('os.environ.update({"WANDB_MODE": "x", "OMP_NUM_THREADS": "1"})', "OMP_NUM_THREADS"),
        ("os.environ.update(A='1')", "the environment"),
        ('os.environ |= {"A": "1"}', "A"),
        ("os.putenv('A', '1')", "A"),
        ("del os.environ['A']", "A"),
        ('os.environ["WANDB_HTTP_TIMEOUT"] = "9"', "WANDB_HTTP_TIMEOUT"),
        ("load_dotenv()", "the environment"),
        ("def f():\n    os.environ['A'] = '1'", "A"),
    ],
)
def test_a_script_that_changes_the_environment_first_starts_cold(
    line: str, what: str, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(f"import os\n{line}")
    (tmp_path / "train.py").write_text("import own\nimport torch")
    packages, reason = read_script("train.py", str(tmp_path), ("sklearn",))
    assert packages == ()
    assert reason.startswith("own.py:")
    assert reason.endswith(f" sets {what} before its imports")
    (tmp_path / "train.py").write_text("def f():\n    import torch\nimport own\nf()")
    assert read_script("train.py", str(tmp_path), ()).reason == reason


@pytest.mark.parametrize("text", [None, "x = = 1", "import json"])
def test_a_script_without_these_imports_starts_cold(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "train.py").write_text(text)
    reason = "train.py imports none of wandb, numpy, torch, torchvision"
    assert read_script("train.py", str(tmp_path), ()) == ([], reason)


def test_an_open_gpu_is_found_among_open_files() -> None:
    assert find_device(["/dev/null", "/dev/nvidiactl"], {}) == (
        "preloading has opened /dev/nvidiactl"
    )
    assert find_device(["/dev/null", "pipe:[1]"], {}) == ""
