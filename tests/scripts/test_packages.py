"""The real packages that parse flags in their own ways, each in an environment of the user's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.asking import ask
from tests.users_python import environment_with

DATACLASS = """from dataclasses import dataclass
import wandb
@dataclass
class Args:
    learning_rate: float = 0.1
    use_amp: bool = False
"""
LOG = "run = wandb.init()\nrun.log({'loss': 1})\nopen('ran', 'w')\n"
# Package, script, how the parser names a flag that it does not have.
USUAL = [
    (
        "simple-parsing",
        DATACLASS + "from simple_parsing import ArgumentParser\np = ArgumentParser()\n"
        "p.add_arguments(Args, dest='args')\np.parse_args()\n" + LOG,
        "unrecognized arguments: --learnin_rate=0.1 | did you mean --learning_rate? (train.py:5)",
    ),
    (
        "jsonargparse",
        "from jsonargparse import CLI\nimport wandb\n\n"
        "def main(learning_rate: float = 0.1, use_amp: bool = False):\n    run = wandb.init()\n"
        "    run.log({'loss': 1})\n    open('ran', 'w')\nCLI(main)\n",
        "unrecognized arguments: --learnin_rate=0.1 | did you mean --learning_rate? (train.py:4)",
    ),
    (
        "fire",
        "import fire, wandb\ndef main(learning_rate=0.1, use_amp=False):\n    run = wandb.init()\n"
        "    run.log({'loss': 1})\n    open('ran', 'w')\nfire.Fire(main)\n",
        "Could not consume arg: --learnin_rate=0.1 | did you mean --learning_rate? (train.py:2)",
    ),
]
HYDRA = """import hydra
@hydra.main(version_base=None, config_path=".", config_name="config")
def main(cfg): open("ran", "w")
main()
"""
FULL = [
    (
        "typed-argument-parser",
        "from tap import Tap\nclass Args(Tap):\n    learning_rate: float = 0.1\n"
        "    use_amp: str = ''\nArgs().parse_args()\n",
        "unrecognized arguments: --learnin_rate=0.1 | did you mean --learning_rate? (train.py:3)",
    ),
    (
        "configargparse",
        "import configargparse\np = configargparse.ArgParser()\n"
        "p.add('--learning_rate', type=float)\np.add('--use_amp')\np.parse_args()\n",
        "unrecognized arguments: --learnin_rate=0.1 | did you mean --learning_rate? (train.py:3)",
    ),
    (
        "datargs",
        DATACLASS.replace("bool = False", "str = ''").replace("import wandb\n", "")
        + "from datargs import parse\nparse(Args)\n",
        "unrecognized arguments: --learnin_rate=0.1 --use_amp=True | did you mean --learning-rate?",
    ),
    (
        "tyro",
        DATACLASS.replace("bool = False", "str = ''") + "import tyro\ntyro.cli(Args)\n" + LOG,
        "Unrecognized options: --learnin_rate=0.1 | python train.py --help lists its flags",
    ),
    (
        "transformers",
        DATACLASS + "from transformers import HfArgumentParser\n"
        "HfArgumentParser(Args).parse_args_into_dataclasses()\n" + LOG,
        "Some specified arguments are not used by the HfArgumentParser: ['--learnin_rate=0.1'] | "
        "did you mean --learning_rate? (train.py:5)",
    ),
    (
        "lightning",
        "from lightning.pytorch import LightningModule\n"
        "from lightning.pytorch.cli import LightningCLI\nclass Net(LightningModule):\n"
        "    def __init__(self, learning_rate: float = 0.1, use_amp: bool = False):\n"
        "        super().__init__()\nLightningCLI(Net, args=None)\n",
        "",
    ),
]


@pytest.fixture(scope="module")
def python() -> str:
    return str(environment_with(*[name for name, *_ in USUAL], "hydra-core"))


@pytest.mark.full
@pytest.mark.slow(seconds=20)
@pytest.mark.parametrize(("script", "said"), [o[1:] for o in USUAL], ids=[o[0] for o in USUAL])
def test_a_parser_of_a_package(script: str, said: str, python: str, tmp_path: Path) -> None:
    _try(script, said, python, tmp_path)


@pytest.mark.slow(seconds=20)
def test_hydra(python: str, tmp_path: Path) -> None:
    files = {"config.yaml": "lr: 0.1\nmodel: {depth: 3}\n"}
    command = "[python, train.py, '${args_no_hyphens}']"
    right, wrong = "lr: {values: [0.1, 0.2]}, model.depth: {value: 2}", "model.deep: {value: 1}"
    own = {"command": command, "files": files, "python": python}
    assert ask(tmp_path, HYDRA, right, **own) == []
    [said] = ask(tmp_path, HYDRA, f"{right}, {wrong}", **own)
    assert said.startswith("parameters.model.deep: train.py: Could not override 'model.deep'.")
    [said] = ask(tmp_path, HYDRA, right, **{**own, "command": "[python, train.py, '${args}']"})
    assert said.startswith("parameters: train.py: unrecognized arguments: --lr=0.1")
    assert not (tmp_path / "outputs").exists()


@pytest.mark.full
@pytest.mark.parametrize(("package", "script", "said"), FULL, ids=[one[0] for one in FULL])
def test_a_parser_of_another_package(package: str, script: str, said: str, tmp_path: Path) -> None:
    python = str(environment_with(*[name for name, *_ in FULL], "jsonargparse[signatures]"))
    if package == "lightning":
        command = "[python, train.py, fit, '${args}']"
        names = "model.learning_rate: {values: [0.1, 0.2]}, model.use_amp: {values: [true, false]}"
        assert ask(tmp_path, script, names, command=command, python=python) == []
        [found] = ask(tmp_path, script, "model.rate: {value: 1}", command=command, python=python)
        assert found.startswith("parameters.model.rate: train.py: ")
        return
    _try(script, said, python, tmp_path)


def _try(script: str, said: str, python: str, folder: Path) -> None:
    """A sweep that fits is accepted, and what does not fit is said in the package's own words."""
    right = "learning_rate: {values: [0.1, 0.2]}, use_amp: {values: [true, false]}"
    if "datargs" in script:
        right = right.replace("_", "-")
    assert ask(folder, script, right, python=python) == []
    found = ask(
        folder, script, "learnin_rate: {values: [0.1]}, use_amp: {value: true}", python=python
    )
    assert f"parameters.learnin_rate: train.py: {said}" in found
