"""What ranks the runs of a sweep: `metric`, or `metrics` for schedulers of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployer.sweeps.parameters.keys import nearest, shown
from deployer.sweeps.problem import Place, Problem, Problems, doubt
from deployer.sweeps.validation.keys import (
    METRIC,
    check_keys,
    check_values,
    find_misspelt,
    is_number,
)
from deployer.text import number_hint

GOALS = METRIC["goal"].choices
EXAMPLE = "write metric: {name: loss, goal: minimize}"


def check_metric(config: Mapping[str, Any]) -> Problems:
    """Complain about a metric that cannot be read; doubt what W&B would not take as it looks."""
    metric = config.get("metric")
    if "metric" not in config:
        yield from _check_metrics(config)
        return
    if "metrics" in config:
        yield doubt(
            ("metrics",), "metric is set as well, and only one of them counts", "remove one"
        )
    if not isinstance(metric, Mapping):
        name = metric if isinstance(metric, str) and metric else "loss"
        hint = f"write metric: {{name: {name}, goal: minimize}}"
        said = f"{shown(metric)} is not a mapping"
        if isinstance(metric, list) and len(metric) > 1:
            said = f"{len(metric)} metrics, but a sweep is ranked by one"
            hint = "keep one as a mapping; the others are logged as well"
        yield Problem(("metric",), said, hint)
        return
    yield from _check_one(("metric",), metric)


def _check_metrics(config: Mapping[str, Any]) -> Problems:
    """Doubt several metrics: only an optimizer of one's own has a use for them."""
    metrics = config.get("metrics")
    if "metrics" not in config:
        return
    if config.get("method") != "custom":
        yield doubt(("metrics",), "runs cannot be ranked without a metric", EXAMPLE)
    elif not isinstance(metrics, list) or len(metrics) < 2:
        yield doubt(("metrics",), "not a list of two metrics or more", EXAMPLE)
    for index, metric in enumerate(metrics if isinstance(metrics, list) else ()):
        path = ("metrics", f"[{index}]")
        if isinstance(metric, Mapping):
            yield from _check_one(path, metric)
        else:
            yield doubt(path, f"{shown(metric)} is not a mapping", "write {name: loss}")


def _check_one(path: Place, metric: Mapping[str, Any]) -> Problems:
    name, goal, target = metric.get("name"), metric.get("goal", "minimize"), metric.get("target")
    if "goal" not in metric and not find_misspelt(metric, "goal", METRIC):
        message = "missing, so the smallest value counts as the best"
        yield doubt((*path, "goal"), message, "add goal: minimize or goal: maximize")
    if not isinstance(name, str) or not name:
        message = f"{shown(name)} is not text" if "name" in metric else "missing"
        hint = (
            find_misspelt(metric, "name", METRIC) or "write name: and a metric that the script logs"
        )
        yield Problem((*path, "name"), message, hint)
    if goal not in GOALS:
        message = f"{shown(goal)} is not a goal"
        yield Problem((*path, "goal"), message, nearest(goal, GOALS))
    if "target" in metric and not is_number(target):
        hint = number_hint(target) if isinstance(target, str) else ""
        message = f"{shown(target)} is not a number"
        yield Problem((*path, "target"), message, hint or "write a number, or remove it")
    imputing = {key: METRIC[key] for key in ("impute", "impute_while_running")}
    yield from check_values(path, metric, imputing)
    yield from check_keys(path, metric, METRIC)
