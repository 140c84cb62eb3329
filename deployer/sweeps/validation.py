"""What is wrong or doubtful in a sweep's configuration, as data; pure.

Keys and values are those of W&B's own schema (`config/schema.json` of its package `sweeps`).
An error is what cannot run or never ends; everything else W&B runs too, so it is a warning.
"""

from __future__ import annotations

import datetime
import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deployer.sweeps.parameters.keys import nearest, shown
from deployer.sweeps.parameters.parse import Problem, parse_parameters
from deployer.sweeps.parameters.space import Space
from deployer.sweeps.program import RUNNERS, check_command
from deployer.text import find_forbidden, number_hint

METHODS = ("grid", "random", "bayes", "custom")
GOALS = ("minimize", "maximize")
TEXTS = ("program", "entity", "project", "name", "description")
KNOWN_KEYS = (
    *("method", "parameters", "metric", "metrics", "early_terminate", "run_cap", "command"),
    *(*TEXTS, "apiVersion", "kind", "controller", "scheduler", "job", "image_uri"),
)
METRIC_KEYS = ("name", "goal", "target", "impute", "impute_while_running")
# More configurations than anybody waits for, even at one a second on ten agents.
LARGE_GRID = 10_000

Problems = Iterator[Problem]


def check_config(config: Mapping[str, Any]) -> list[Problem]:
    """Return all complaints about a configuration that YAML could read."""
    found = list(_check_sendable((), config))
    if found:
        return found
    space, problems = parse_parameters(config.get("parameters", {}))
    if "parameters" in config:
        found += problems
    elif not _has_search_space(config):
        hint = _misspelt(config, "parameters", KNOWN_KEYS)
        found.append(
            Problem(("parameters",), "missing", hint or "add parameters: {lr: {values: [0.1]}}")
        )
    parts = (_check_method(config, space), _check_metric(config), _check_run_cap(config))
    for part in (*parts, _check_program(config), check_command(config)):
        found += part
    found += _check_early_terminate(config)
    found += [*_check_texts(config), *_check_keys(config), *_check_bounds(config)]
    return found


def _has_search_space(config: Mapping[str, Any]) -> bool:
    scheduler = config.get("scheduler")
    return isinstance(scheduler, Mapping) and bool(scheduler.get("search_space"))


def _check_sendable(path: tuple[str, ...], value: Any) -> Problems:
    """Complain about what JSON cannot say: dates, sets, binary data."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _check_sendable((*path, str(key)), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _check_sendable((*path, f"[{index}]"), item)
    elif isinstance(value, datetime.date):
        hint = f"put it in quotes: '{value}'"
        yield Problem(path, f"{value} is read as a date, which cannot be sent", hint)
    elif not isinstance(value, str | int | float | None):
        kind = type(value).__name__
        yield Problem(path, f"a {kind} cannot be sent", "use text, numbers, lists, mappings")


def _check_method(config: Mapping[str, Any], space: Space) -> Problems:
    method = config.get("method")
    if "method" not in config:
        hint = _misspelt(config, "method", KNOWN_KEYS)
        yield Problem(("method",), "missing", hint or "add method: grid, random or bayes")
    elif method not in METHODS:
        yield Problem(("method",), f"{shown(method)} is not a method", nearest(method, METHODS))
    elif method == "bayes" and "metric" not in config:
        hint = _misspelt(config, "metric", KNOWN_KEYS) or "add metric: {name: loss, goal: minimize}"
        yield Problem(("metric",), "missing, and bayes has nothing to optimise", hint)
    elif method == "grid":
        yield from _check_grid(config, space)


def _check_grid(config: Mapping[str, Any], space: Space) -> Problems:
    for parameter in space.uncountable:
        path = tuple(part for name in parameter.path for part in ("parameters", name))
        message = "a grid cannot go through a continuous range or probabilities"
        yield Problem(path, message, "list values: [...], or choose method: random or bayes")
    size = space.grid_size
    cap = config.get("run_cap")
    limit = min(size or 0, cap) if type(cap) is int else size or 0
    if limit > LARGE_GRID:
        message = f"the grid has {size:,} configurations"
        yield _doubt(("parameters",), message, "choose method: random with a run_cap")


def _check_metric(config: Mapping[str, Any]) -> Problems:
    metric = config.get("metric")
    if "metric" not in config:
        if "metrics" in config:
            message = "nothing ranks the runs, since there is no metric"
            hint = "write metric: {name: loss, goal: minimize}"
            yield _doubt(("metrics",), message, hint)
        return
    if not isinstance(metric, Mapping):
        hint = f"write metric: {{name: {metric or 'loss'}, goal: minimize}}"
        yield Problem(("metric",), f"{shown(metric)} is not a mapping", hint)
        return
    name, goal, target = metric.get("name"), metric.get("goal", "minimize"), metric.get("target")
    if "goal" not in metric and not _misspelt(metric, "goal", METRIC_KEYS):
        message = "missing, so the smallest value counts as the best"
        yield _doubt(("metric", "goal"), message, "add goal: minimize or goal: maximize")
    if not isinstance(name, str) or not name:
        message = f"{shown(name)} is not text" if "name" in metric else "missing"
        hint = _misspelt(metric, "name", METRIC_KEYS) or "write name: and what the script logs"
        yield Problem(("metric", "name"), message, hint)
    if goal not in GOALS:
        message = f"{shown(goal)} is not a goal"
        yield Problem(("metric", "goal"), message, nearest(goal, GOALS))
    if "target" in metric and not _is_number(target):
        hint = number_hint(target) if isinstance(target, str) else ""
        message = f"{shown(target)} is not a number"
        yield Problem(("metric", "target"), message, hint or "write a number, or remove it")
    for key in metric:
        if key not in METRIC_KEYS:
            yield _unknown(("metric", str(key)), key, METRIC_KEYS)


def _check_run_cap(config: Mapping[str, Any]) -> Problems:
    cap, method = config.get("run_cap"), config.get("method")
    if "run_cap" in config and (type(cap) is not int or cap < 1):
        yield Problem(
            ("run_cap",), f"{shown(cap)} is not a whole number above 0", "write run_cap: 20"
        )
    elif "run_cap" not in config and method in ("random", "bayes"):
        message = f"missing, and {method} never ends without it"
        hint = _misspelt(config, "run_cap", KNOWN_KEYS) or "add run_cap: 20, or use --run-cap 20"
        yield Problem(("run_cap",), message, hint)


def _check_program(config: Mapping[str, Any]) -> Problems:
    """Complain where nothing says what to start."""
    if config.get("command", []) == [] and not any(key in config for key in RUNNERS):
        hint = (
            _misspelt(config, "program", KNOWN_KEYS) or "add program: train.py, or command: [...]"
        )
        yield Problem(("program",), "missing, and there is no command", hint)


def _check_early_terminate(config: Mapping[str, Any]) -> Problems:
    """Warn about rules that never stop a run: the sweep runs all the same."""
    path, rule = ("early_terminate",), config.get("early_terminate")
    if "early_terminate" not in config:
        return
    if not isinstance(rule, Mapping) or rule.get("type") != "hyperband":
        hint = "write early_terminate: {type: hyperband, min_iter: 3}"
        yield _doubt(path, "only type: hyperband is known, so no run is stopped early", hint)
    elif "min_iter" not in rule and not {"max_iter", "s"} <= rule.keys():
        yield _doubt(path, "hyperband needs min_iter, or max_iter and s", "add min_iter: 3")
    elif "metric" not in config:
        hint = "add metric: {name: loss, goal: minimize}"
        yield _doubt(path, "without a metric no run is stopped early", hint)


def _check_texts(config: Mapping[str, Any]) -> Problems:
    for key in TEXTS:
        value = config.get(key, "")
        if isinstance(value, str):
            if key in ("entity", "project") and (letter := find_forbidden(value)):
                hint = f"write it without {letter}"
                yield Problem((key,), f"'{value}' holds {letter}, which is in no name", hint)
            continue
        message = f"{shown(value)} is not text"
        hint = "give it a value, or remove it" if value is None else f"write {key}: '{value}'"
        shown_only = key in ("name", "description")
        yield (_doubt if shown_only else Problem)((key,), message, hint)


def _check_keys(config: Mapping[str, Any]) -> Problems:
    for key in config:
        if key not in KNOWN_KEYS:
            yield _unknown((str(key),), key, KNOWN_KEYS)


def find_unknown_keys(config: Mapping[str, Any], own: Sequence[str] = ()) -> list[Problem]:
    """Return the keys of a sweep and of its metric that nobody reads, but for a server's `own`."""
    known = (*KNOWN_KEYS, *own)
    found = [_unknown((str(key),), key, known) for key in config if key not in known]
    metric = config.get("metric")
    for key in metric if isinstance(metric, Mapping) else ():
        if key not in METRIC_KEYS:
            found.append(_unknown(("metric", str(key)), key, METRIC_KEYS))
    return found


def _check_bounds(config: Mapping[str, Any]) -> Problems:
    """Complain about an int and a float as bounds: W&B's client cannot tell which is meant."""
    parameters = config.get("parameters")
    for name, raw in parameters.items() if isinstance(parameters, Mapping) else ():
        if not isinstance(raw, Mapping) or "distribution" in raw:
            continue
        if {type(raw.get("min")), type(raw.get("max"))} == {int, float}:
            message = f"min {raw['min']} and max {raw['max']} are an integer and a decimal number"
            path = ("parameters", str(name))
            yield Problem(path, message, "write both alike, or add distribution: uniform")


def _misspelt(config: Mapping[str, Any], key: str, known: tuple[str, ...]) -> str:
    """Return a hint if an unknown key was probably meant as the one that is missing."""
    unknown = [str(other) for other in config if other not in known]
    found = difflib.get_close_matches(key, unknown, n=1)
    return f"rename {found[0]} to {key}" if found else ""


def _unknown(path: tuple[str, ...], key: Any, known: tuple[str, ...]) -> Problem:
    return _doubt(path, f"W&B does not know {shown(key)}", nearest(key, known))


def _doubt(path: tuple[str, ...], message: str, hint: str) -> Problem:
    return Problem(path, message, hint, "warning")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
