"""The section metrics: what agents are told of it, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from deployer.agent.metrics.spec import TENSORBOARD_STEP, Spec, add_metric, parse_spec
from deployer.config.sections.metrics import EXIT_CODE_ALONE
from deployer.errors import ConfigError
from tests.sections import parse_metrics

LOSS = frozenset(("loss",))
PATTERN = r"(?P<epoch>\d+): (?P<acc>\S+)"
TOLD: list[tuple[dict[str, Any], Spec]] = [
    ({"from": "stdout"}, Spec("stdout", LOSS)),
    ({"from": "stdout", "names": "all", "step": "epoch"}, Spec("stdout", None, "epoch")),
    ({"from": "stdout", "names": "acc"}, Spec("stdout", frozenset(("acc",)))),
    ({"from": "stdout", "names": ["a", "b"]}, Spec("stdout", frozenset("ab"))),
    (
        {"from": "stdout", "pattern": PATTERN, "step": "epoch"},
        Spec("stdout", frozenset(("acc",)), "epoch", PATTERN),
    ),
    ({"from": "file", "path": "a.csv"}, Spec("file", LOSS, path="a.csv", format="csv")),
    ({"from": "file", "path": "./a.log"}, Spec("file", LOSS, path="./a.log", format="json")),
    ({"from": "tensorboard"}, Spec("tensorboard", LOSS, TENSORBOARD_STEP)),
]


@pytest.mark.parametrize(("section", "spec"), TOLD)
def test_what_agents_are_told(section: dict[str, Any], spec: Spec) -> None:
    assert parse_spec(add_metric(parse_metrics(section).variable, "loss")) == spec


def test_without_a_metric_all_names_count() -> None:
    told = parse_metrics({"from": "stdout"}).variable
    assert parse_spec(add_metric(told, "")) == Spec("stdout", None)
    told = parse_metrics({"from": "stdout", "names": "acc"}).variable
    assert parse_spec(add_metric(told, "")) == Spec("stdout", frozenset(("acc",)))


def test_an_exit_code_alone_needs_no_metric() -> None:
    assert parse_spec(add_metric(EXIT_CODE_ALONE, "loss")) == Spec("none", frozenset())
    assert parse_metrics({}).variable == ""


REFUSED = [
    ({"names": ["loss"]}, "metrics: names needs `from`, which is missing"),
    ({"from": "stdout", "path": "x"}, "metrics: path does not belong to from: stdout"),
    ({"from": "file"}, "metrics: path is missing"),
    ({"from": "file", "path": "../x"}, "metrics.path: is outside the run's folder"),
    ({"from": "stdout", "pattern": "loss"}, "metrics.pattern: has no named group"),
    ({"from": "stdout", "pattern": "("}, "metrics.pattern: is not a regular expression: missing )"),
    ({"form": "stdout"}, "metrics.form: unknown key"),
    ({"from": "stdout", "names": [1]}, "metrics.names[0]: 1 is not text"),
]


@pytest.mark.parametrize(("section", "said"), REFUSED)
def test_what_is_refused(section: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_metrics(section)
    [found] = raised.value.findings
    assert said in found.text
