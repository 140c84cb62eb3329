"""Every complaint about a configuration that YAML could read, key by key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from deployer.sweeps.parameters.forms import Continuous, Space
from deployer.sweeps.parameters.keys import nearest, shown
from deployer.sweeps.parameters.parse import parse_parameters
from deployer.sweeps.problem import Place, Problem, Problems, doubt
from deployer.sweeps.program import check_command
from deployer.sweeps.validation.keys import (
    CONTROLLER,
    HYPERBAND,
    METRIC,
    SCHEDULER,
    TOP,
    Key,
    check_keys,
    check_sendable,
    check_start,
    check_texts,
    check_values,
    find_misspelt,
    is_number,
)
from deployer.sweeps.validation.parameters import check_bounds, check_parameters
from deployer.text import format_count, number_hint

PATH: Place = ("early_terminate",)
# The methods of each engine, as W&B's check has them.
SCHEDULER_METHODS = {"wandb": ("grid", "random", "bayes"), "optuna": ("custom",), "ax": ("custom",)}
METHODS = TOP["method"].choices
# More configurations than anybody waits for, even at one a second on ten agents.
LARGE_GRID = 10_000
GOALS = METRIC["goal"].choices
EXAMPLE = "write metric: {name: loss, goal: minimize}"


def check_early_terminate(config: Mapping[str, Any]) -> Problems:
    """Warn about rules that never stop a run, or not as they look: the sweep runs all the same."""
    rule = config.get("early_terminate")
    if "early_terminate" not in config:
        return
    if not isinstance(rule, Mapping) or rule.get("type") != "hyperband":
        hint = "write early_terminate: {type: hyperband, min_iter: 3}"
        yield doubt(PATH, "the only known type is hyperband, so no run is stopped early", hint)
        return
    if "min_iter" not in rule and not {"max_iter", "s"} <= rule.keys():
        yield doubt(PATH, "hyperband needs min_iter, or max_iter and s", "add min_iter: 3")
    elif "metric" not in config:
        hint = "add metric: {name: loss, goal: minimize}"
        yield doubt(PATH, "early_terminate needs a metric", hint)
    elif "min_iter" in rule and "max_iter" in rule:
        message = "min_iter is set as well, so max_iter is ignored"
        yield doubt((*PATH, "max_iter"), message, "remove one of them")
    if "scheduler" in config:
        yield doubt(PATH, "a scheduler stops runs itself, so this is ignored", "remove it")
    yield from check_values(PATH, rule, HYPERBAND)
    yield from check_keys(PATH, rule, HYPERBAND)


def has_local_scheduler(config: Mapping[str, Any]) -> bool:
    """Return True if `wandb sweep-scheduler` is to choose this sweep's configurations."""
    scheduler = config.get("scheduler")
    return isinstance(scheduler, Mapping) and bool(scheduler.get("engine"))


def has_search_space(config: Mapping[str, Any]) -> bool:
    """Tell whether a scheduler brings the parameters."""
    scheduler = config.get("scheduler")
    return isinstance(scheduler, Mapping) and bool(scheduler.get("search_space"))


def check_scheduler(config: Mapping[str, Any]) -> Problems:
    """Warn about schedulers and controllers that W&B would not start."""
    for key, known in (("scheduler", SCHEDULER), ("controller", CONTROLLER)):
        value = config.get(key)
        if key in config and not isinstance(value, Mapping):
            yield doubt((key,), f"{shown(value)} is not a mapping", f"write {key}: and its keys")
        elif isinstance(value, Mapping):
            yield from check_values((key,), value, known)
            yield from check_keys((key,), value, known)
    scheduler, method = config.get("scheduler"), config.get("method")
    if not isinstance(scheduler, Mapping):
        return
    fitting = SCHEDULER_METHODS.get(str(scheduler.get("engine")), ())
    if fitting and "method" in config and method not in fitting:
        message = f"the engine {scheduler['engine']} does not serve method {method}"
        yield doubt(("scheduler", "engine"), message, f"write method: {' or '.join(fitting)}")
    if "source" not in scheduler:
        for key in ("optimizer", "search_space"):
            if key in scheduler:
                message = f"{key} is a function, but source is missing"
                yield doubt(("scheduler", key), message, "add source: and the file")


def check_method(config: Mapping[str, Any], space: Space) -> Problems:
    """Complain about a method that is none, or that lacks what it needs."""
    method = config.get("method")
    if "method" not in config:
        hint = find_misspelt(config, "method", TOP)
        yield Problem(("method",), "missing", hint or "add method: grid, random or bayes")
    elif method not in METHODS:
        yield Problem(("method",), f"{shown(method)} is not a method", nearest(method, METHODS))
    elif method == "custom" and not has_local_scheduler(config):
        hint = "write method: grid, random or bayes, or add scheduler: {engine: optuna}"
        yield Problem(("method",), "custom, but no scheduler chooses the configurations", hint)
    elif method == "bayes" and "metric" not in config:
        hint = find_misspelt(config, "metric", TOP) or "add metric: {name: loss, goal: minimize}"
        yield Problem(("metric",), "missing, so bayes has nothing to optimise", hint)
    elif method == "grid":
        yield from _check_grid(config, space)


def _check_grid(config: Mapping[str, Any], space: Space) -> Problems:
    for parameter in space.uncountable:
        path = tuple(part for name in parameter.path for part in ("parameters", name))
        message = "a grid cannot enumerate a continuous range or probabilities"
        yield Problem(path, message, "list values: [...], or choose method: random or bayes")
    for parameter in space.parameters:
        if isinstance(parameter, Continuous) and parameter.q and (size := parameter.grid_size):
            last, end = parameter.grid_value(size - 1), parameter.second
            if math.isclose(last + parameter.q, end):
                path = tuple(part for name in parameter.path for part in ("parameters", name))
                message = f"a grid ends before max: its last value is {last:.6g}"
                yield doubt((*path, "max"), message, f"write max: {end + parameter.q / 2:.6g}")
    size = space.grid_size
    cap = config.get("run_cap")
    limit = min(size or 0, cap) if type(cap) is int else size or 0
    if limit > LARGE_GRID:
        message = f"the grid has {size:,} configurations"
        yield doubt(("parameters",), message, "choose method: random with a run_cap")


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


def check_run_cap(config: Mapping[str, Any], space: Space) -> Problems:
    """Complain about a cap that is no number, and doubt one that a grid never reaches."""
    cap = config.get("run_cap")
    if "run_cap" not in config:
        return
    if type(cap) is not int or cap < 1:
        message = f"{shown(cap)} is not a whole number above 0"
        yield Problem(("run_cap",), message, "write run_cap: 20")
    elif config.get("method") == "grid" and cap > (space.grid_size or cap):
        size = format_count(space.grid_size or 0, "configuration")
        message = f"the grid has only {size}, so it ends before {cap:,} runs"
        yield doubt(("run_cap",), message, "remove it, or add values")


def check_end(config: Mapping[str, Any]) -> Problems:
    """Complain about a sweep that never ends."""
    method = config.get("method")
    if "run_cap" not in config and method in ("random", "bayes"):
        message = f"missing, and {method} never ends without it"
        hint = find_misspelt(config, "run_cap", TOP) or "add run_cap: 20, or use --run-cap 20"
        yield Problem(("run_cap",), message, hint)


def check_config(config: Mapping[str, Any]) -> list[Problem]:
    """Return all complaints about the configuration of a sweep that agents are to run."""
    if str(config.get("apiVersion")).startswith("kubeflow.org/"):
        said = f"{config.get('kind')} of Kubeflow, not a W&B sweep"
        hint = "write program, method, metric and parameters: deployer init SCRIPT drafts them"
        return [Problem(("kind",), said, hint)]
    found = check_content(config)
    if list(check_sendable((), config)):
        return found
    return [*found, *check_end(config), *check_start(config)]


def check_content(config: Mapping[str, Any], own: Mapping[str, Key] | None = None) -> list[Problem]:
    """Return the complaints about what is there; a server knows keys of its `own`.

    What starts a run, and who ends the sweep, may be elsewhere: in `wandb.agent(function, count)`.
    """
    if found := list(check_sendable((), config)):
        return found
    space, problems = parse_parameters(config.get("parameters", {}))
    if "parameters" in config:
        found += problems
    elif not has_search_space(config):
        hint = find_misspelt(config, "parameters", TOP)
        hint = hint or "add parameters: {lr: {values: [0.1]}}"
        found.append(Problem(("parameters",), "missing", hint))
    for part in (
        check_method(config, space),
        check_parameters(config, space),
        check_metric(config),
        check_run_cap(config, space),
        check_command(config),
        check_early_terminate(config),
        check_scheduler(config),
        check_texts(config),
        check_keys((), config, {**TOP, **(own or {})}),
        check_bounds(config),
    ):
        found += part
    return found
