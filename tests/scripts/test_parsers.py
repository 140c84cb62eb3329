"""What the parsers of small scripts say of small sweeps, in their own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.scripts.rehearsal.verdict import RAISED
from tests.scripts.asking import ask

ARGPARSE = "import argparse\np = argparse.ArgumentParser()\nadd = p.add_argument\n"
PARSE = "p.parse_args()"
LR = 'add("--lr", type=float)\n'
CLICK = "import click\n@click.command()\n"
NUMBERS = "write numbers as its values"
WORDS = "python train.py --help lists its flags"
NO_BOOLEANS = "command: [..., '${args_no_boolean_flags}'] instead of '${args}'"
BAD_LR = f"parameters.lr: train.py:4: argument --lr: invalid float value: 'x' | {NUMBERS}"

# Name, script, parameters, what is said.
CASES: list[tuple[str, str, str, list[str]]] = [
    (
        "what fits: numbers, an abbreviation, a list",
        ARGPARSE + 'import ast\nadd("--layers", type=ast.literal_eval)\n'
        'add("--learning", type=float)\n' + PARSE,
        "learn: {values: [0.1, 1.0e-5]}, layers: {values: [[1, 2], [3]]}",
        [],
    ),
    (
        "several at once",
        ARGPARSE + LR + 'add("--batch-size", type=int)\nadd("--opt", choices=["sgd", "adam"])\n'
        'add("-m")\nadd("--n", type=int)\nadd("--data", required=True)\n' + PARSE,
        "lr: {values: [1, x]}, batch_size: {value: 1}, opt: {values: [sgd, adamw]}, m: {value: 1},"
        "n: {values: [1, 2.5]}, data: {value: 1}",
        [
            "parameters.batch_size: train.py: unrecognized arguments: --batch_size=1 --m=1"
            " | did you mean --batch-size? (train.py:5)",
            "parameters.lr: train.py:4: argument --lr: invalid float value: 'x' | " + NUMBERS,
            "parameters.m: train.py: unrecognized arguments: --m=1 | did you mean -m? (train.py:7)",
            "parameters.opt: train.py:6: argument --opt: invalid choice: 'adamw' (choose from "
            "'sgd', 'adam') | did you mean adam?",
            "parameters.n: train.py:8: argument --n: invalid int value: '2.5' | "
            "list whole numbers, or write distribution: int_uniform",
        ],
    ),
    (
        "null",
        ARGPARSE + LR + PARSE,
        "lr: {values: [0.1, null]}",
        [
            "parameters.lr: train.py:4: argument --lr: invalid float value: 'None' | "
            "in the script: type=lambda text: None if text == 'None' else float(text)"
        ],
    ),
    (
        "whole floats may come as ints",
        ARGPARSE + 'add("--n", type=int)\n' + PARSE,
        "n: {values: [1.0]}",
        [
            "doubt: parameters.n: train.py:4: argument --n: invalid int value: '1.0' | "
            "list whole numbers, or write distribution: int_uniform"
        ],
    ),
    (
        "required",
        ARGPARSE + LR + 'add("--data", required=True)\n' + PARSE,
        "lr: {value: 1}",
        [
            "parameters: train.py: the following arguments are required: --data | "
            "add data: {value: …}, or write the flag in command"
        ],
    ),
    (
        "store_true, type=bool and a mapping",
        ARGPARSE + 'add("--amp", action="store_true")\nadd("--b", type=bool)\nadd("--m")\n' + PARSE,
        "amp: {value: true}, b: {values: [true, false]}, m: {parameters: {depth: {value: 3}}}",
        [
            "parameters.amp: train.py:4: argument --amp: ignored explicit argument 'True' | "
            + NO_BOOLEANS,
            "doubt: parameters.b: train.py:5: type=bool turns every text into True, even 'False' | "
            "action=argparse.BooleanOptionalAction, or type=lambda text: text == 'True'",
            "doubt: parameters.m: train.py:6: --m gets a whole mapping as one text, {'depth': 3} | "
            "read it with ast.literal_eval, or from wandb.config",
        ],
    ),
    (
        "lists for nargs",
        ARGPARSE + 'add("--layers", nargs="+", type=int)\n' + PARSE,
        "layers: {values: [[500, 500]]}",
        [
            "parameters.layers: train.py:4: argument --layers: invalid int value: '[500, 500]' | "
            "an agent passes a value as one argument: use values such as '500 500' and command: "
            "['${env}', bash, -c, 'exec python $0 $*', '${program}', '${args_no_equals}']"
        ],
    ),
    (
        "a type and an action with words of their own",
        "import argparse\nclass A(argparse.Action):\n"
        "    def __call__(self, parser, namespace, value, option=None):\n"
        "        if float(value) > 1: parser.error('too big')\n"
        "def rate(text):\n    if not 0 < float(text) < 1:\n"
        "        raise argparse.ArgumentTypeError('must be in (0, 1)')\n"
        'p = argparse.ArgumentParser()\np.add_argument("--a", action=A)\n'
        'p.add_argument("--rate", type=rate)\n' + PARSE,
        "a: {values: [0.5, 2]}, rate: {values: [0.5, 1.0]}",
        [
            "parameters.rate: train.py:10: argument --rate: must be in (0, 1) | "
            "write values that it accepts",
            "parameters.a: train.py:9: too big | write values that it accepts",
        ],
    ),
    (
        "a type that breaks is no refusal",
        ARGPARSE + 'add("--model", type=lambda name: {"cnn": 1}[name])\n' + PARSE,
        "model: {values: [cnn, mlp]}",
        [
            "doubt: parameters.model: train.py:4: KeyError: mlp | write values that it accepts; "
            + RAISED,
        ],
    ),
    (
        "parents",
        "import argparse\nbase = argparse.ArgumentParser(add_help=False)\n\n"
        'base.add_argument("--lr", type=float)\n'
        "p = argparse.ArgumentParser(parents=[base])\n" + PARSE,
        "lr: {value: x}",
        [BAD_LR],
    ),
    (
        "a pre-parser",
        "import argparse\npre = argparse.ArgumentParser(add_help=False)\n"
        'pre.add_argument("--model")\n_, rest = pre.parse_known_args()\n'
        'p = argparse.ArgumentParser()\np.add_argument("--lr", type=float)\np.parse_args(rest)',
        "model: {value: cnn}, lr: {values: [1, x]}, lrr: {value: 1}",
        [
            "parameters.lrr: train.py: unrecognized arguments: --lrr=1 | "
            "did you mean --lr? (train.py:6)",
            f"parameters.lr: train.py:6: argument --lr: invalid float value: 'x' | {NUMBERS}",
        ],
    ),
    (
        "a pre-parser that chooses the flags",
        "import argparse\np = argparse.ArgumentParser()\n"
        'p.add_argument("--model")\nknown, _ = p.parse_known_args()\n'
        'p.add_argument("--depth", choices=["1"] if known.model == "cnn" else ["1", "2"])\n'
        + PARSE,
        "model: {values: [cnn, mlp]}, depth: {values: ['1', '2']}",
        [],
    ),
    (
        "a lenient parser",
        ARGPARSE + LR + "p.parse_known_args()",
        "lr: {value: 1}, lrr: {value: 1}",
        [
            "doubt: parameters.lrr: --lrr is ignored by train.py: its parser does not know it | "
            "did you mean --lr? (train.py:4)"
        ],
    ),
    (
        "a lenient parser has types",
        ARGPARSE + LR + "p.parse_known_args()",
        "lr: {value: x}",
        [BAD_LR],
    ),
    (
        "defaults are read first",
        ARGPARSE + LR + "p.parse_args([])\n" + PARSE,
        "lr: {value: x}",
        [BAD_LR],
    ),
    (
        "words after one of the script's own",
        "import sys\n" + ARGPARSE.replace("\nadd", "; add") + LR + "p.parse_args(sys.argv[1:])",
        "lr: {value: x}",
        [BAD_LR],
    ),
    (
        "a parser that learns its flags while it parses",
        "import argparse\nclass Parser(argparse.ArgumentParser):\n"
        "    def parse_known_args(self, args=None, namespace=None):\n"
        '        self.add_argument("--lr", type=float)\n'
        "        return super().parse_known_args(args, namespace)\nParser().parse_args()",
        "lr: {values: [0.1, 0.2, x]}",
        [BAD_LR],
    ),
    (
        "a parser with an error of its own",
        "import argparse, sys\nclass P(argparse.ArgumentParser):\n"
        "    def error(self, message): raise ValueError(message)\n"
        'p = P(); p.add_argument("--lr", type=float)\n' + PARSE,
        "lr: {value: x}",
        [BAD_LR],
    ),
    (
        "a flag of a subcommand that is not named",
        ARGPARSE + 's = p.add_subparsers()\ns.add_parser("fit").add_argument("--lr")\n' + PARSE,
        "lr: {value: 1}",
        [
            "parameters.lr: train.py: unrecognized arguments: --lr=1 | "
            "perhaps it belongs to a subcommand: command: [..., fit, '${args}']"
        ],
    ),
    (
        "a group of which one is needed",
        ARGPARSE
        + 'g = p.add_mutually_exclusive_group(required=True)\ng.add_argument("--a")\n'
        + LR
        + PARSE,
        "lr: {value: 1}",
        [f"parameters: train.py: one of the arguments --a is required | {WORDS}"],
    ),
    (
        "wandb is called early",
        "import argparse, wandb\nrun = wandb.init(mode='online'); p = argparse.ArgumentParser()\n\n"
        'p.add_argument("--lr", type=float, default=wandb.config.lr)\n' + PARSE,
        "lr: {values: [0.5, x]}",
        [BAD_LR],
    ),
    (
        "values from wandb.config",
        "import wandb\nrun = wandb.init(config={'lr': 1})\nassert run.config.lr == 3\n",
        "lr: {value: 3}",
        [],
    ),
    (
        "by hand, until it logs",
        "import sys, wandb\ngot = dict(w.split('=') for w in sys.argv[1:])\n"
        "run = wandb.init(config=got)\nrun.log({'loss': float(got['--lr'])})",
        "lr: {value: 3}",
        [],
    ),
    (
        "usage by hand",
        "import sys\nif 'x' in sys.argv[1]:\n    print('usage: train.py LR')\n    sys.exit(2)",
        "lr: {value: x}",
        [f"parameters: train.py: usage: train.py LR | {WORDS}"],
    ),
    (
        "an error before",
        "import argparse, os\nos.environ['SECRET_TOKEN']",
        "lr: {value: 1}",
        ["not checked: train.py:2: KeyError: SECRET_TOKEN"],
    ),
    (
        "flags by hand",
        "import sys\nraise ValueError('Unknown config key:\\n' + sys.argv[1])",
        "lr: {value: 1}",
        [f"doubt: program: train.py:2: ValueError: Unknown config key: | {RAISED}"],
    ),
    (
        "an error for want of a GPU",
        "raise RuntimeError('no CUDA device')",
        "lr: {value: 1}",
        ["not checked: train.py:1: RuntimeError: no CUDA device"],
    ),
    (
        "a module that is not here",
        "import argparse, nowhere.to_be_found",
        "lr: {value: 1}",
        [
            "program: train.py:1: the script's Python has no module nowhere | "
            "install the package that provides nowhere"
        ],
    ),
    (
        "not Python",
        "import argparse\nif True\n    pass",
        "lr: {value: 1}",
        ["program: train.py:2: expected ':' | correct the script"],
    ),
    (
        "click",
        CLICK + '@click.option("--lr", type=float)\n@click.option("--opt",\n'
        '    type=click.Choice(["sgd", "adam"]))\n@click.option("--data", required=True)\n'
        '@click.option("--amp", is_flag=True)\n@click.option("--x", type=click.IntRange(0, 1))\n'
        "def main(**_): open('ran', 'w')\nmain()",
        "lr: {value: x}, opt: {value: adamw}, lrr: {value: 1}, amp: {value: true}, x: {value: 2}",
        [
            "parameters.lrr: train.py: No such option '--lrr'. Did you mean '--lr'? | "
            "did you mean --lr? (train.py:3)",
            f"parameters.amp: train.py:7: Option '--amp' does not take a value. | {NO_BOOLEANS}",
            "parameters.lr: train.py:3: Invalid value for '--lr': 'x' is not a valid float. | "
            + NUMBERS,
            "parameters.opt: train.py:4: Invalid value for '--opt': 'adamw' is not one of 'sgd', "
            "'adam'. | did you mean adam?",
            "parameters.x: train.py:8: Invalid value for '--x': 2 is not in the range 0<=x<=1. | "
            + NUMBERS,
            "parameters: train.py: Missing option '--data'. | "
            "add data: {value: …}, or write the flag in command",
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
        "import typer\nfrom typing import Annotated\n"
        "def main(lr: Annotated[float, typer.Option(max=3)] = 1, depth: int = 1):\n"
        "    open('ran', 'w')\ntyper.run(main)",
        "lr: {values: [0.5, 5.5]}, depth: {values: [1, x]}",
        [
            "parameters.depth: train.py:3: Invalid value for '--depth': Input should be a valid "
            f"integer, unable to parse string as an integer | {NUMBERS}",
            "parameters.lr: train.py:3: Invalid value for '--lr': Input should be less than or "
            f"equal to 3 | {NUMBERS}",
        ],
    ),
    (
        "absl",
        "from absl import app, flags\n"
        'flags.DEFINE_float("lr", 0.1, "")\nflags.DEFINE_enum("opt", "sgd",\n'
        '    ["sgd", "adam"], "")\ndef main(_): open("ran", "w")\napp.run(main)',
        "lr: {value: x}, opt: {value: adamw}, lrr: {value: 1}",
        [
            "parameters.lr: train.py:2: flag --lr=x: could not convert string to float: 'x' | "
            + NUMBERS,
            "parameters.opt: train.py:3: flag --opt=adamw: value should be one of <sgd|adam> | "
            "did you mean adam?",
            "parameters.lrr: train.py: Unknown command line flag 'lrr'. Did you mean: lr ? | "
            "did you mean --lr? (train.py:2)",
        ],
    ),
    (
        "absl without app.run",
        "import sys\nfrom absl import flags\n"
        'flags.DEFINE_boolean("amp", False, "")\nflags.FLAGS(sys.argv)',
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
    assert sorted(ask(tmp_path, script, parameters)) == sorted(said)
