"""The sweep of `deployer run`: the agent's macros cannot reach into its words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from wandb.sdk.launch.sweeps.utils import create_sweep_command

from deployer.errors import ConfigError
from deployer.sweeps.sweep_file import RUN_PARAMETER, build_command_sweep

HOSTILE = (
    *("python", "train.py", "--lr", "0.1", "--flag=a b", "", " ", "'", '"', "$HOME", "`id`", "\\"),
    *("${args}", "${program}", "${envvar:HOME}", "x${env}", "%s %d", "{args}", "ü✓", "a\nb\r\tc"),
    *("--", "-o", "json", "*", "~", "1e-5", "008", "null", "yes", "&", ";", "#", "\x01", "\u2028"),
)


def _render(config: dict[str, Any]) -> list[str]:
    """Return the words that an agent's own functions make of a command."""
    words = create_sweep_command(list(config["command"]))
    macros = {"${env}": "/usr/bin/env", "${interpreter}": "python"}
    return [macros.get(word, word) for word in words]


def test_every_word_comes_out_of_the_agent_as_it_went_in() -> None:
    sweep = build_command_sweep(HOSTILE)
    rendered = _render(sweep.config)
    assert rendered[:3] == ["/usr/bin/env", "python", "-c"]
    assert not any(word.startswith("${") and word.endswith("}") for word in rendered)
    assert json.loads(rendered[-1]) == list(HOSTILE)


def test_it_is_one_configuration_that_is_named_after_its_command() -> None:
    sweep = build_command_sweep(["python", "-u", "src/train.py", "a b"])
    assert (sweep.expected, sweep.warnings, sweep.program) == (1, (), "src/train.py")
    assert sweep.name == "python -u src/train.py 'a b'"
    assert sweep.config["parameters"] == {RUN_PARAMETER: {"value": sweep.name}}


def test_a_command_that_begins_with_a_variable_is_refused() -> None:
    with pytest.raises(ConfigError, match="'A=1' sets a variable") as refused:
        build_command_sweep(["A=1", "python", "a b.py"])
    assert refused.value.hint == "deployer run -- env A=1 python 'a b.py'"
    build_command_sweep(["env", "A=1", "python", "train.py"])
    build_command_sweep(["./A=1"])


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ConfigError, match="is not UTF-8"):
        build_command_sweep(["python", "train.py", "\udcff"])
