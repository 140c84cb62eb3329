"""The section metrics: what agents are told of it, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from deployer.agent.metric_lines import MetricSpec, add_metric, parse_spec
from deployer.errors import ConfigError
from tests.sections import parse_metrics

LOSS = frozenset(("loss",))
PATTERN = r"(?P<epoch>\d+): (?P<acc>\S+)"
TOLD: list[tuple[dict[str, Any], MetricSpec]] = [
    ({"from": "stdout"}, MetricSpec(LOSS)),
    ({"from": "stdout", "names": "all", "step": "epoch"}, MetricSpec(None, "epoch")),
    ({"from": "stdout", "names": "acc"}, MetricSpec(frozenset(("acc",)))),
    ({"from": "stdout", "names": ["a", "b"]}, MetricSpec(frozenset("ab"))),
    (
        {"from": "stdout", "pattern": PATTERN, "step": "epoch"},
        MetricSpec(frozenset(("acc",)), "epoch", PATTERN),
    ),
]


@pytest.mark.parametrize(("section", "spec"), TOLD)
def test_what_agents_are_told(section: dict[str, Any], spec: MetricSpec) -> None:
    assert parse_spec(add_metric(parse_metrics(section).variable, "loss")) == spec


def test_without_a_metric_all_names_count() -> None:
    told = parse_metrics({"from": "stdout"}).variable
    assert parse_spec(add_metric(told, "")) == MetricSpec(None)
    told = parse_metrics({"from": "stdout", "names": "acc"}).variable
    assert parse_spec(add_metric(told, "")) == MetricSpec(frozenset(("acc",)))


REFUSED = [
    ({"from": "file"}, "metrics.from: 'file' is not known"),
    ({"names": ["loss"]}, "metrics: names needs `from`, which is missing"),
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
