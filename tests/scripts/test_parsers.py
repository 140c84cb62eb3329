"""What argparse in small scripts says of small sweeps, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.asking import ask

ARGPARSE = "import argparse\np = argparse.ArgumentParser()\nadd = p.add_argument\n"
PARSE = "p.parse_args()"
LR = 'add("--lr", type=float)\n'
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
]


@pytest.mark.parametrize(
    ("script", "parameters", "said"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_what_a_parser_says(script: str, parameters: str, said: list[str], tmp_path: Path) -> None:
    assert ask(tmp_path, script, parameters) == said
