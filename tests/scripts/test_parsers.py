"""What the parsers of small scripts say of small sweeps, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.asking import ask

ARGPARSE = "import argparse\np = argparse.ArgumentParser()\nadd = p.add_argument\n"
PARSE = "p.parse_args()"
CLICK = "import click\n@click.command()\n"
TYPER = "import typer\nfrom enum import Enum\n"
ABSL = "from absl import app, flags\n"
LR = 'add("--lr", type=float)\n'
NO_FLAGS = "not checked: it reads no flags with argparse, click, typer or absl"
ENDS = "not checked: it ends with exit code 0 before it has read its flags"
NUMBERS = "write numbers as its values"

# Name, script, parameters, what is said.
CASES: list[tuple[str, str, str, list[str]]] = [
    ("fits", ARGPARSE + LR + PARSE, "lr: {values: [0.1, 1.0e-5]}", []),
    (
        "unknown",
        ARGPARSE + LR + PARSE,
        "lrr: {value: 1}",
        ["parameters.lrr: train.py has no flag --lrr | did you mean --lr? (train.py:4)"],
    ),
    (
        "unknown, nothing near",
        ARGPARSE + LR + PARSE,
        "dropout: {value: 1}",
        ["parameters.dropout: train.py has no flag --dropout | known: --lr"],
    ),
    (
        "hyphens",
        ARGPARSE + 'add("--batch-size", type=int)\n' + PARSE,
        "batch_size: {value: 1}",
        [
            "parameters.batch_size: train.py has no flag --batch_size | "
            "did you mean --batch-size? (train.py:4)"
        ],
    ),
    (
        "one hyphen",
        ARGPARSE + 'add("-lr", type=float)\n' + PARSE,
        "lr: {value: 1}",
        ["parameters.lr: train.py has no flag --lr | did you mean -lr? (train.py:4)"],
    ),
    ("abbreviation", ARGPARSE + 'add("--learning", type=float)\n' + PARSE, "learn: {value: 1}", []),
    (
        "ambiguous",
        ARGPARSE + 'add("--lrate")\nadd("--lrange")\n' + PARSE,
        "lr: {value: 1}",
        ["parameters.lr: train.py: --lr could be --lrange, --lrate | write the flag's whole name"],
    ),
    (
        "no abbreviations",
        "import argparse\np = argparse.ArgumentParser(allow_abbrev=False)\n"
        'p.add_argument("--learning")\n' + PARSE,
        "learn: {value: 1}",
        ["parameters.learn: train.py has no flag --learn | did you mean --learning? (train.py:3)"],
    ),
    (
        "float",
        ARGPARSE + LR + PARSE,
        "lr: {values: [0.1, big]}",
        [f"parameters.lr: train.py:4: --lr takes float, not 'big' | {NUMBERS}"],
    ),
    (
        "none",
        ARGPARSE + LR + PARSE,
        "lr: {values: [0.1, null]}",
        [
            "parameters.lr: train.py:4: --lr takes float, not 'None' | "
            "leave the parameter out, or have the script read None"
        ],
    ),
    (
        "int",
        ARGPARSE + 'add("--n", type=int)\n' + PARSE,
        "n: {values: [1, 2.5]}",
        [
            "parameters.n: train.py:4: --n takes int, not '2.5' | "
            "list whole numbers, or write distribution: int_uniform"
        ],
    ),
    (
        "whole floats may come as ints",
        ARGPARSE + 'add("--n", type=int)\n' + PARSE,
        "n: {values: [1.0]}",
        [
            "doubt: parameters.n: train.py:4: --n takes int, not '1.0' | "
            "list whole numbers, or write distribution: int_uniform"
        ],
    ),
    (
        "choices",
        ARGPARSE + 'add("--opt", choices=["sgd", "adam"])\n' + PARSE,
        "opt: {values: [sgd, adamw]}",
        ["parameters.opt: train.py:4: --opt does not take 'adamw' | did you mean adam?"],
    ),
    (
        "choices of numbers",
        ARGPARSE + 'add("--n", type=int, choices=[1, 2])\n' + PARSE,
        "n: {values: [1, 7]}",
        ["parameters.n: train.py:4: --n does not take '7' | known: 1, 2"],
    ),
    (
        "required",
        ARGPARSE + LR + 'add("--data", required=True)\n' + PARSE,
        "lr: {value: 1}",
        [
            "parameters: train.py:5: --data is required, and the sweep does not give it | "
            "add data: {value: …}, or write the flag in command"
        ],
    ),
    (
        "several at once",
        ARGPARSE + LR + 'add("--data", required=True)\n' + PARSE,
        "lr: {value: x}, dat: {value: 1}, opt: {value: 1}",
        [
            "parameters.lr: train.py:4: --lr takes float, not 'x' | " + NUMBERS,
            "parameters.opt: train.py has no flag --opt | known: --lr, --data",
        ],
    ),
    (
        "store_true",
        ARGPARSE + 'add("--amp", action="store_true")\n' + PARSE,
        "amp: {values: [true, false]}",
        [
            "parameters.amp: train.py:4: --amp takes no value, and gets --amp=True | "
            "command: [..., '${args_no_boolean_flags}'] instead of '${args}'"
        ],
    ),
    (
        "bool",
        ARGPARSE + 'add("--amp", type=bool)\n' + PARSE,
        "amp: {values: [true, false]}",
        [
            "doubt: parameters.amp: train.py:4: type=bool takes every text for true, 'False' too | "
            "action=argparse.BooleanOptionalAction, or type=lambda text: text == 'True'"
        ],
    ),
    (
        "mapping",
        ARGPARSE + 'add("--model")\n' + PARSE,
        "model: {parameters: {depth: {value: 3}}}",
        [
            "doubt: parameters.model: train.py:4: --model gets a mapping as one text, "
            "{'depth': 3} | read it with ast.literal_eval, or from wandb.config"
        ],
    ),
    (
        "mapping for a reader of JSON",
        ARGPARSE + 'import json\nadd("--model", type=json.loads)\n' + PARSE,
        "model: {parameters: {depth: {value: 3}}}",
        [
            "parameters.model: train.py:5: --model takes loads, not \"{'depth': 3}\" | "
            "write values that it takes"
        ],
    ),
    (
        "lists",
        ARGPARSE + 'import ast\nadd("--layers", type=ast.literal_eval)\n' + PARSE,
        "layers: {values: [[1, 2], [3]]}",
        [],
    ),
    (
        "a positional",
        ARGPARSE + 'add("data")\n' + LR + PARSE,
        "lr: {value: 1}",
        [
            "parameters: train.py refuses its command: "
            "the following arguments are required: data | "
            "python train.py --help says what it takes"
        ],
    ),
    (
        "a group of which one is needed",
        ARGPARSE
        + 'g = p.add_mutually_exclusive_group(required=True)\ng.add_argument("--a")\n'
        + LR
        + PARSE,
        "lr: {value: 1}",
        [
            "parameters: train.py refuses its command: one of the arguments --a is required | "
            "python train.py --help says what it takes"
        ],
    ),
    (
        "parents",
        "import argparse\nbase = argparse.ArgumentParser(add_help=False)\n"
        'base.add_argument("--lr", type=float)\n'
        "p = argparse.ArgumentParser(parents=[base])\n" + PARSE,
        "lr: {value: x}",
        [f"parameters.lr: train.py:3: --lr takes float, not 'x' | {NUMBERS}"],
    ),
    (
        "a pre-parser",
        "import argparse\npre = argparse.ArgumentParser(add_help=False)\n"
        'pre.add_argument("--model")\n_, rest = pre.parse_known_args()\n'
        'p = argparse.ArgumentParser()\np.add_argument("--lr", type=float)\np.parse_args(rest)',
        "model: {value: cnn}, lr: {values: [1, x]}, lrr: {value: 1}",
        [
            "parameters.lrr: train.py has no flag --lrr | did you mean --lr? (train.py:6)",
            f"parameters.lr: train.py:6: --lr takes float, not 'x' | {NUMBERS}",
        ],
    ),
    (
        "a lenient parser",
        ARGPARSE + LR + "p.parse_known_args()",
        "lrr: {value: 1}, dropout: {value: 1}",
        ["doubt: parameters.lrr: train.py leaves --lrr aside | did you mean --lr?"],
    ),
    (
        "a lenient parser has types",
        ARGPARSE + LR + "p.parse_known_args()",
        "lr: {value: x}",
        [f"parameters.lr: train.py:4: --lr takes float, not 'x' | {NUMBERS}"],
    ),
    (
        "defaults are read first",
        ARGPARSE + LR + "p.parse_args([])\n" + PARSE,
        "lr: {value: x}",
        [f"parameters.lr: train.py:4: --lr takes float, not 'x' | {NUMBERS}"],
    ),
    (
        "words of its own",
        ARGPARSE + LR + 'p.parse_args(["--lr=1"])',
        "lr: {value: x}",
        ["not checked: it parses other words than those of its command line"],
    ),
    (
        "sys.argv rewritten",
        "import sys\nsys.argv = ['x']\n" + ARGPARSE + LR + PARSE,
        "lr: {value: x}",
        ["not checked: it parses other words than those of its command line"],
    ),
    (
        "an end that is caught",
        ARGPARSE + LR + f"try:\n    {PARSE}\nexcept BaseException:\n    pass",
        "lr: {value: 1}",
        [],
    ),
    (
        "in a thread",
        "import threading\n"
        + ARGPARSE
        + LR
        + "t = threading.Thread(target=p.parse_args)\nt.start()\nt.join()",
        "lr: {value: x}",
        [f"parameters.lr: train.py:4: --lr takes float, not 'x' | {NUMBERS}".replace(":4", ":5")],
    ),
    (
        "in a function that is called late",
        "import argparse\ndef main():\n    p = argparse.ArgumentParser()\n"
        '    p.add_argument("--lr", type=float)\n    return p.parse_args()\n'
        'if __name__ == "__main__":\n    main()',
        "lr: {value: x}",
        [f"parameters.lr: train.py:4: --lr takes float, not 'x' | {NUMBERS}"],
    ),
    (
        "a parser with an error of its own",
        "import argparse, sys\nclass P(argparse.ArgumentParser):\n"
        "    def error(self, message):\n        self.print_help()\n        sys.exit(2)\n"
        'p = P()\np.add_argument("--lr", type=float)\n' + PARSE,
        "lr: {value: x}",
        [f"parameters.lr: train.py:7: --lr takes float, not 'x' | {NUMBERS}"],
    ),
    (
        "a parser that goes on after its error",
        "import argparse\nclass P(argparse.ArgumentParser):\n"
        "    def error(self, message):\n        print(message)\n"
        'p = P()\np.add_argument("--lr", type=float)\n' + PARSE,
        "lrr: {value: 1}",
        [],
    ),
    (
        "a type with words of its own",
        ARGPARSE + "def rate(text):\n    if not 0 < float(text) < 1:\n"
        "        raise argparse.ArgumentTypeError('must be in (0, 1)')\n"
        'add("--rate", type=rate)\n' + PARSE,
        "rate: {values: [0.5, 1.0]}",
        ["parameters.rate: train.py:7: --rate does not take '1.0' | must be in (0, 1)"],
    ),
    (
        "a flag of a subcommand that is not named",
        ARGPARSE
        + "s = p.add_subparsers()\n"
        + 's.add_parser("fit").add_argument("--lr")\n'
        + PARSE,
        "lr: {value: 1}",
        [
            "parameters.lr: train.py has no flag --lr | "
            "it is one of a subcommand: write that before '${args}' in command"
        ],
    ),
    (
        "a custom action",
        "import argparse\nclass A(argparse.Action):\n"
        "    def __call__(self, parser, namespace, value, option=None):\n"
        "        if float(value) > 1: parser.error('too big')\n"
        'p = argparse.ArgumentParser()\np.add_argument("--lr", action=A)\n' + PARSE,
        "lr: {values: [0.5, 2]}",
        [
            "parameters: train.py refuses its command: too big | "
            "python train.py --help says what it takes"
        ],
    ),
    (
        "no file is opened for writing",
        ARGPARSE + 'add("--log", type=argparse.FileType("w"), default="ran")\n' + PARSE,
        "log: {value: ran}",
        [],
    ),
    (
        "words from a file",
        "import argparse\np = argparse.ArgumentParser(fromfile_prefix_chars='@')\n"
        'p.add_argument("--lr", type=float)\n' + PARSE,
        "lr: {value: 1}",
        [],
    ),
    (
        "wandb is called early",
        "import wandb\nrun = wandb.init(project='p', mode='online')\n"
        + ARGPARSE
        + 'add("--lr", type=float, default=wandb.config.lr)\n'
        + PARSE,
        "lr: {values: [0.5, x]}",
        [f"parameters.lr: train.py:6: --lr takes float, not 'x' | {NUMBERS}"],
    ),
    (
        "it logs, and has a parser somewhere",
        "import argparse, wandb\nrun = wandb.init()\nrun.log({'loss': 1})",
        "lr: {value: 1}",
        ["not checked: it logs before it has read its flags"],
    ),
    ("no parser", "import wandb\nwandb.init()", "lr: {value: 1}", [NO_FLAGS]),
    ("by hand", "import sys\nprint(sys.argv[1])", "lr: {value: 1}", [NO_FLAGS]),
    ("never parsed", ARGPARSE + LR + "raise SystemExit", "lr: {value: 1}", [ENDS]),
    (
        "a module that is not here",
        "import argparse, nowhere.to_be_found",
        "lr: {value: 1}",
        ["not checked: python here has no module nowhere"],
    ),
    (
        "an error before",
        "import argparse, os\nos.environ['SECRET_TOKEN']",
        "lr: {value: 1}",
        ["not checked: train.py:2: KeyError: 'SECRET_TOKEN'"],
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
