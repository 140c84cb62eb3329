"""What click, typer and absl in small scripts say of small sweeps, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.asking import ask

CLICK = "import click\n@click.command()\n"
TYPER = "import typer\nfrom enum import Enum\n"
ABSL = "from absl import app, flags\n"
NUMBERS = "write numbers as its values"

# Name, script, parameters, what is said.
CASES: list[tuple[str, str, str, list[str]]] = [
    (
        "click",
        CLICK + '@click.option("--lr", type=float)\n@click.option("--opt",\n'
        '    type=click.Choice(["sgd", "adam"]))\n@click.option("--data", required=True)\n'
        "def main(**_): open('ran', 'w')\nmain()",
        "lr: {value: x}, opt: {value: adamw}, lrr: {value: 1}",
        [
            "parameters.lrr: train.py has no flag --lrr | did you mean --lr? (train.py:3)",
            f"parameters.lr: train.py:3: --lr takes float, not 'x' | {NUMBERS}",
            "parameters.opt: train.py:4: --opt does not take 'adamw' | did you mean adam?",
            "parameters: train.py:6: --data is required, and the sweep does not give it | "
            "add data: {value: …}, or write the flag in command",
        ],
    ),
    (
        "a flag of click",
        CLICK + '@click.option("--amp", is_flag=True)\ndef main(amp): open("ran", "w")\nmain()',
        "amp: {values: [true, false]}",
        [
            "parameters.amp: train.py:3: --amp takes no value, and gets --amp=True | "
            "command: [..., '${args_no_boolean_flags}'] instead of '${args}'"
        ],
    ),
    (
        "a number out of click's range",
        CLICK + '@click.option("--lr", type=click.FloatRange(0, 1))\n'
        'def main(lr): open("ran", "w")\nmain()',
        "lr: {values: [0.5, 2.5]}",
        ["parameters.lr: train.py:3: --lr does not take '2.5' | 2.5 is not in the range 0<=x<=1"],
    ),
    (
        "a number out of typer's range",
        TYPER + "from typing import Annotated\n"
        "def main(lr: Annotated[float, typer.Option(max=3)] = 1): open('ran', 'w')\n"
        "typer.run(main)",
        "lr: {values: [0.5, 5.5]}",
        [
            "parameters.lr: train.py:4: --lr does not take '5.5' | "
            "Input should be less than or equal to 3"
        ],
    ),
    (
        "a click command that fits",
        CLICK + '@click.option("--lr", type=float)\ndef main(lr): open("ran", "w")\nmain()',
        "lr: {value: 0.1}",
        [],
    ),
    (
        "typer",
        TYPER + "class Opt(str, Enum):\n    sgd = 'sgd'\n"
        "def main(lr: float, depth: int = 1,\n    opt: Opt = Opt.sgd): open('ran', 'w')\n"
        "typer.run(main)",
        "depth: {value: x}, opt: {value: adam}",
        [
            f"parameters.depth: train.py:5: --depth takes int, not 'x' | {NUMBERS}",
            "parameters.opt: train.py:6: --opt does not take 'adam' | known: sgd",
            "parameters: train.py:5: lr is required, and the sweep does not give it | "
            "write it in command",
        ],
    ),
    (
        "absl",
        ABSL + 'flags.DEFINE_float("lr", 0.1, "")\nflags.DEFINE_enum("opt", "sgd",\n'
        '    ["sgd", "adam"], "")\ndef main(_): open("ran", "w")\napp.run(main)',
        "lr: {value: x}, opt: {value: adamw}, lrr: {value: 1}",
        [
            f"parameters.lr: train.py:2: --lr takes float, not 'x' | {NUMBERS}",
            "parameters.lrr: train.py has no flag --lrr | did you mean --lr? (train.py:2)",
            "parameters.opt: train.py:3: --opt does not take 'adamw' | did you mean adam?",
        ],
    ),
    (
        "absl without app.run",
        "import sys\n" + ABSL + 'flags.DEFINE_boolean("amp", False, "")\nflags.FLAGS(sys.argv)',
        "amp: {values: [true, false]}",
        [],
    ),
]


@pytest.mark.parametrize(
    ("script", "parameters", "said"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_what_a_parser_says(script: str, parameters: str, said: list[str], tmp_path: Path) -> None:
    assert ask(tmp_path, script, parameters) == said
