"""Where and how a script parses its flags, if it does, and what that lets us say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.asking import ask

ARGPARSE = "import argparse\np = argparse.ArgumentParser()\nadd = p.add_argument\n"
PARSE = "p.parse_args()"
LR = 'add("--lr", type=float)\n'
NO_FLAGS = "not checked: it reads no flags with argparse, click, typer or absl"
ENDS = "not checked: it ends with exit code 0 before it has read its flags"
NUMBERS = "write numbers as its values"

# Name, script, parameters, what is said.
CASES: list[tuple[str, str, str, list[str]]] = [
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
]


@pytest.mark.parametrize(
    ("script", "parameters", "said"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_what_a_parser_says(script: str, parameters: str, said: list[str], tmp_path: Path) -> None:
    assert ask(tmp_path, script, parameters) == said
