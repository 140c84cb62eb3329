"""The words of an agent's commands, compared with those of W&B's own functions."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from deployer.scripts.commands import build_macros, list_corners, render_command
from deployer.sweeps.program import MACROS

VALUES: list[Any] = [
    *(True, False, None, 0, 1, -3, 10**20, 1e-05, 1e16, 0.1, -0.0, 1e22, 3.0, float("inf")),
    *("", "a b", "it's", '"', "--x", "a=b", "é", "1e-5", "None", "\n"),
    *([], [1, "a", None], {}, {"a": {"b": [True]}}, {"x y": 1e-07}),
]
# Both ask W&B in one process: its import takes a second.
ASK = """
import json, sys
from wandb.sdk.launch.sweeps import utils
values, command = json.load(sys.stdin)
args = {f"p{n}": {"value": value} for n, value in enumerate(values)}
found = utils.create_sweep_command_args({"args": args})
found["args_dict"] = [*found["args_dict"]]
json.dump([found, utils.create_sweep_command(command)], sys.stdout)
"""
COMMAND = ["${env}", "A${envvar:HOME}-${envvar:NO_SUCH}", "${envvar:HOME}", "${interpreter}", "x y"]


def test_words_are_those_that_wandb_makes() -> None:
    arguments = {f"p{n}": value for n, value in enumerate(VALUES)}
    asked = json.dumps([VALUES, COMMAND])
    answer = subprocess.run(
        [sys.executable, "-c", ASK],
        input=asked,
        env={"HOME": "/home/me"},
        capture_output=True,
        text=True,
        check=True,
    )
    macros, command = json.loads(answer.stdout)
    assert build_macros(arguments) == macros
    known = {f"${{{name}}}" for name in [*macros, "env", "interpreter", "program"]}
    assert known | {"${args_json_file}"} == set(MACROS)
    rendered = render_command({"command": COMMAND}, {}, {"HOME": "/home/me"})
    meant = {"${env}": "/usr/bin/env", "${interpreter}": "python"}
    assert rendered == [meant.get(word, word) for word in command]


def test_a_command_without_macros_and_one_that_is_left_out() -> None:
    config = {"program": "t.py"}
    words = render_command(config, {"a": 1}, {})
    assert words == ["/usr/bin/env", "python", "t.py", "--a=1"]
    config = {"command": ["sh", 3, "${nothing}", "${args_json_file}"]}
    assert render_command(config, {}, {}, "/tmp/a.json") == ["sh", "3", "/tmp/a.json"]


def test_every_value_of_a_list_and_both_ends_of_a_range_occur() -> None:
    parameters = {
        "a": {"values": [1, 2, 3]},
        "b": {"min": 0.5, "max": 2.0},
        "c": {"min": 1, "max": 9},
        "d": {"parameters": {"e": {"value": "x"}}},
    }
    found = list_corners({"parameters": parameters})
    assert found[0] == {"a": 1, "b": 0.5, "c": 1, "d": {"e": "x"}}
    assert {one["a"] for one in found} == {1, 2, 3}
    assert {one["c"] for one in found} == {1, 9}
    assert {one["b"] for one in found} > {0.5, 2.0}
    many = {f"p{n}": {"values": [*range(200)]} for n in range(20)}
    assert len(list_corners({"parameters": many})) == 200
