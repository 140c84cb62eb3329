"""The rules of a sweep file: every complaint about a configuration that is valid YAML; pure.

An error means that it cannot run or never ends; W&B runs everything else, so that is a warning.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping
from typing import Any

from deployer.errors import Finding, KeyPath
from deployer.sweeps.keys import (
    CONTROLLER,
    HYPERBAND,
    METRIC,
    NESTED,
    SCHEDULER,
    TOP,
    Findings,
    Key,
    check_keys,
    check_values,
    doubt,
    find_misspelt,
    is_number,
    nearest,
    problem,
    shown,
)
from deployer.sweeps.parameters import parse_parameters
from deployer.sweeps.program import (
    DEFAULT_COMMAND,
    LAUNCH_RUNNERS,
    PARAMETER_MACROS,
    check_command,
    list_scripts,
)
from deployer.sweeps.space import Constant, Continuous, Space, value_key
from deployer.text import find_forbidden, format_count, number_hint

# Values that JSON cannot express, names and texts, and the start of a run.

TEXTS = ("program", "entity", "project", "name", "description")
LONGEST_PROJECT = 128
LAUNCHED = ("kind", "apiVersion", "job", "image_uri")
# W&B's own keys in the config of a run.
RESERVED = ("_wandb", "wandb_version")
PATH: KeyPath = ("early_terminate",)
# The methods of each engine, as in W&B's own check.
SCHEDULER_METHODS = {"wandb": ("grid", "random", "bayes"), "optuna": ("custom",), "ax": ("custom",)}
METHODS = TOP["method"].choices
# More configurations than are practical, even at one a second on ten agents.
LARGE_GRID = 10_000
GOALS = METRIC["goal"].choices
EXAMPLE = "write metric: {name: loss, goal: minimize}"


def check_sendable(path: KeyPath, value: Any) -> Findings:
    """Report values that JSON cannot express: dates, sets, binary data."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from check_sendable((*path, str(key)), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from check_sendable((*path, f"[{index}]"), item)
    elif isinstance(value, datetime.date):
        hint = f"put it in quotes: '{value}'"
        yield problem(path, f"{value} is read as a date, which cannot be sent", hint)
    elif not isinstance(value, str | int | float | None):
        kind = type(value).__name__
        yield problem(path, f"a {kind} cannot be sent", "use text, numbers, lists, mappings")


def check_finite(path: KeyPath, value: Any) -> Findings:
    """Warn about numbers that JSON lacks, in the values of parameters."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from check_finite((*path, str(key)), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from check_finite((*path, f"[{index}]"), item)
    elif isinstance(value, float) and not math.isfinite(value):
        message = f"{value} is not a number in JSON, so results may lose it"
        yield doubt(path, message, f"put it in quotes: '{value}'")


def check_tuples(path: KeyPath, value: Any) -> Findings:
    """Warn about lists of texts from Python's tuples: YAML splits them at each comma."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from check_tuples((*path, str(key)), item)
    elif isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        opened = [one for one in value if one.startswith("(") and ")" not in one]
        if opened and any(one.endswith(")") and "(" not in one for one in value):
            message = f"YAML has no tuples, so these are {len(value)} texts, such as '{opened[0]}'"
            yield doubt(path, message, "write lists, such as [[1, 2], [3, 4]]")


def check_texts(config: Mapping[str, Any]) -> Findings:
    """Report names that are not text, or that no server accepts."""
    for key in TEXTS:
        value = config.get(key, "")
        if isinstance(value, str):
            if key in ("entity", "project") and (letter := find_forbidden(value)):
                hint = f"write it without {letter}"
                yield problem((key,), f"'{value}' contains {letter}, which names cannot have", hint)
            elif key == "project" and len(value) > LONGEST_PROJECT:
                message = f"the name has {len(value)} characters, more than {LONGEST_PROJECT}"
                yield problem((key,), message, "write a shorter one")
            continue
        message = f"{shown(value)} is not text"
        hint = "give it a value, or remove it" if value is None else f"write {key}: '{value}'"
        shown_only = key in ("name", "description")
        yield (doubt if shown_only else problem)((key,), message, hint)
    yield from check_values((), config, {key: TOP[key] for key in LAUNCHED})


def check_start(config: Mapping[str, Any]) -> Findings:
    """Report a sweep without anything to start, or with something Python cannot start."""
    command, program = config.get("command") or DEFAULT_COMMAND, config.get("program")
    words = [str(word) for word in command] if isinstance(command, list | tuple) else []
    if "${program}" in words and "program" not in config:
        launched = next((key for key in LAUNCH_RUNNERS if key in config), "")
        if launched:
            said = "is for W&B Launch, but an agent needs a program"
            yield problem((launched,), said, "write program: train.py, the job's script, instead")
        elif not config.get("command"):
            hint = (
                find_misspelt(config, "program", TOP) or "add program: train.py, or command: [...]"
            )
            yield problem(("program",), "missing, and so is command", hint)
    flags = next((word for word in words if word in PARAMETER_MACROS), "")
    if flags and (words[0] == flags or {*words} <= {"${env}", "${interpreter}", *PARAMETER_MACROS}):
        hint = f"write ['${{env}}', '${{interpreter}}', '${{program}}', '{flags}']"
        yield problem(("command",), f"{flags} is in place of the program", hint)
    module = f"command: ['${{env}}', '${{interpreter}}', '-m', {str(program).removeprefix('-m ')}"
    for key, name in list_scripts(config):
        if name.endswith(".ipynb"):
            hint = f"jupyter nbconvert --to script {name}, then name {name[:-6]}.py"
            yield problem((key,), f"{name} is a notebook, which Python cannot run", hint)
        elif name.startswith("-m "):
            said = f"'{name}' is one word, not a file"
            yield problem((key,), said, f"remove the key, and write {module}, '${{args}}']")
    if str(config.get("interpreter")).endswith(" -m"):
        said = "W&B does not know it, so an agent starts the program as a file"
        yield problem(("interpreter",), said, f"remove both keys, and write {module}, '${{args}}']")


# Parameters that run but look wrong: repeated values, odd names.


def check_parameters(config: Mapping[str, Any], space: Space) -> Findings:
    """Warn about parameters that W&B runs, but probably not as intended."""
    for path, raw in _walk((NESTED,), config.get(NESTED)):
        yield from _check_listed(path, raw, config.get("method"))
    yield from _check_names(space)
    free = [p for p in space.parameters if not isinstance(p, Constant) and p.grid_size != 1]
    several = config.get("method") in ("random", "bayes") and config.get("run_cap") != 1
    if several and space.parameters and not free:
        message = "all parameters have one value, so all runs are the same"
        yield doubt((NESTED,), message, "add values or a range to one of them")


def check_bounds(config: Mapping[str, Any]) -> Findings:
    """Report an int and a float as bounds: W&B's client cannot tell which one is meant."""
    parameters = config.get(NESTED)
    for name, raw in parameters.items() if isinstance(parameters, Mapping) else ():
        if not isinstance(raw, Mapping) or "distribution" in raw:
            continue
        if {type(raw.get("min")), type(raw.get("max"))} == {int, float}:
            message = f"min {raw['min']} and max {raw['max']} mix an integer and a decimal number"
            path = (NESTED, str(name))
            yield problem(path, message, "write both in the same way, or add distribution: uniform")


def _walk(place: KeyPath, group: Any) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    for name, raw in group.items() if isinstance(group, Mapping) else ():
        if isinstance(raw, Mapping) and NESTED in raw:
            yield from _walk((*place, str(name), NESTED), raw[NESTED])
        elif isinstance(raw, Mapping):
            yield (*place, str(name)), raw


def _check_listed(path: KeyPath, raw: Mapping[str, Any], method: Any) -> Findings:
    """Warn about values that are not finite, appear twice, or mix booleans with numbers."""
    values = raw.get("values")
    yield from check_finite((*path, "value"), raw.get("value"))
    yield from check_tuples((*path, "values"), values)
    seen: dict[Any, Any] = {}
    for index, value in enumerate(values if isinstance(values, list) else ()):
        place = (*path, "values", f"[{index}]")
        yield from check_finite(place, value)
        key = value_key(value)
        if key in seen:
            message = f"{shown(value)} appears twice" + (
                f", as {shown(seen[key])}" if repr(seen[key]) != repr(value) else ""
            )
            effect = (
                "a grid runs it once"
                if method == "grid"
                else "random and bayes draw it twice as often"
            )
            yield doubt(place, f"{message}: {effect}", "remove one of them")
        else:
            seen[key] = value
    yield from _check_booleans((*path, "values"), values)


def _check_booleans(path: KeyPath, values: Any) -> Findings:
    if not isinstance(values, list):
        return
    flags = [value for value in values if isinstance(value, bool)]
    numbers = [value for value in values if type(value) in (int, float)]
    if flags and any(number not in (0, 1) for number in numbers):
        message = f"{shown(flags[0])} is among numbers, and is passed as the text"
        yield doubt(path, message, "write numbers only, or two parameters")


def _check_names(space: Space) -> Findings:
    """Warn about names that W&B itself uses, and names that collide in its config."""
    seen: dict[str, KeyPath] = {}
    for parameter in sorted(space.parameters, key=lambda p: (len(p.path), p.path)):
        name = ".".join(parameter.path)
        if parameter.path[0] in RESERVED:
            message = "W&B keeps its own settings under this name, so runs may lose it"
            yield doubt(_place(parameter.path), message, "choose another name")
        if name in seen:
            message = f"results show it as {name}, like another parameter"
            yield doubt(_place(parameter.path), message, "rename one of them")
        seen.setdefault(name, parameter.path)


def _place(path: KeyPath) -> KeyPath:
    return tuple(part for name in path for part in (NESTED, name))


def check_early_terminate(config: Mapping[str, Any]) -> Findings:
    """Warn about rules that never stop a run, or not as they seem to; the sweep runs anyway."""
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
    scheduler = config.get("scheduler")
    return isinstance(scheduler, Mapping) and bool(scheduler.get("engine"))


def has_search_space(config: Mapping[str, Any]) -> bool:
    scheduler = config.get("scheduler")
    return isinstance(scheduler, Mapping) and bool(scheduler.get("search_space"))


def check_scheduler(config: Mapping[str, Any]) -> Findings:
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


def check_method(config: Mapping[str, Any], space: Space) -> Findings:
    """Report an unknown method, or one without its required keys."""
    method = config.get("method")
    if "method" not in config:
        hint = find_misspelt(config, "method", TOP)
        yield problem(("method",), "missing", hint or "add method: grid, random or bayes")
    elif method not in METHODS:
        yield problem(("method",), f"{shown(method)} is not a method", nearest(method, METHODS))
    elif method == "custom" and not has_local_scheduler(config):
        hint = "write method: grid, random or bayes, or add scheduler: {engine: optuna}"
        yield problem(("method",), "custom, but no scheduler chooses the configurations", hint)
    elif method == "bayes" and "metric" not in config:
        hint = find_misspelt(config, "metric", TOP) or "add metric: {name: loss, goal: minimize}"
        yield problem(("metric",), "missing, so bayes has nothing to optimise", hint)
    elif method == "grid":
        yield from _check_grid(config, space)


def _check_grid(config: Mapping[str, Any], space: Space) -> Findings:
    for parameter in space.uncountable:
        path = tuple(part for name in parameter.path for part in ("parameters", name))
        message = "a grid cannot enumerate a continuous range or probabilities"
        yield problem(path, message, "list values: [...], or choose method: random or bayes")
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


def check_metric(config: Mapping[str, Any]) -> Findings:
    """Report an unreadable metric; warn if W&B would read it in another way."""
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
        yield problem(("metric",), said, hint)
        return
    yield from _check_one(("metric",), metric)


def _check_metrics(config: Mapping[str, Any]) -> Findings:
    """Warn about several metrics: only a custom optimizer can use them."""
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


def _check_one(path: KeyPath, metric: Mapping[str, Any]) -> Findings:
    name, goal, target = metric.get("name"), metric.get("goal", "minimize"), metric.get("target")
    if "goal" not in metric and not find_misspelt(metric, "goal", METRIC):
        message = "missing, so the smallest value counts as the best"
        yield doubt((*path, "goal"), message, "add goal: minimize or goal: maximize")
    if not isinstance(name, str) or not name:
        message = f"{shown(name)} is not text" if "name" in metric else "missing"
        hint = (
            find_misspelt(metric, "name", METRIC) or "write name: and a metric that the script logs"
        )
        yield problem((*path, "name"), message, hint)
    if goal not in GOALS:
        message = f"{shown(goal)} is not a goal"
        yield problem((*path, "goal"), message, nearest(goal, GOALS))
    if "target" in metric and not is_number(target):
        hint = number_hint(target) if isinstance(target, str) else ""
        message = f"{shown(target)} is not a number"
        yield problem((*path, "target"), message, hint or "write a number, or remove it")
    imputing = {key: METRIC[key] for key in ("impute", "impute_while_running")}
    yield from check_values(path, metric, imputing)
    yield from check_keys(path, metric, METRIC)


def check_run_cap(config: Mapping[str, Any], space: Space) -> Findings:
    """Report a cap that is not a number; warn about one that a grid never reaches."""
    cap = config.get("run_cap")
    if "run_cap" not in config:
        return
    if type(cap) is not int or cap < 1:
        message = f"{shown(cap)} is not a whole number above 0"
        yield problem(("run_cap",), message, "write run_cap: 20")
    elif config.get("method") == "grid" and cap > (space.grid_size or cap):
        size = format_count(space.grid_size or 0, "configuration")
        message = f"the grid has only {size}, so it ends before {cap:,} runs"
        yield doubt(("run_cap",), message, "remove it, or add values")


def check_end(config: Mapping[str, Any]) -> Findings:
    """Report a sweep that never ends."""
    method = config.get("method")
    if "run_cap" not in config and method in ("random", "bayes"):
        message = f"missing, and {method} never ends without it"
        hint = find_misspelt(config, "run_cap", TOP) or "add run_cap: 20, or use --run-cap 20"
        yield problem(("run_cap",), message, hint)


def check_config(config: Mapping[str, Any]) -> list[Finding]:
    """Return all complaints about a sweep that agents will run."""
    if str(config.get("apiVersion")).startswith("kubeflow.org/"):
        said = f"{config.get('kind')} of Kubeflow, not a W&B sweep"
        hint = "write program, method, metric and parameters: deployer init SCRIPT drafts them"
        return [problem(("kind",), said, hint)]
    found = check_content(config)
    if list(check_sendable((), config)):
        return found
    return [*found, *check_end(config), *check_start(config)]


def check_content(config: Mapping[str, Any], own: Mapping[str, Key] | None = None) -> list[Finding]:
    """Return the complaints about the existing keys; `own` are the server's additional keys.

    The start of a run and the end of the sweep may be defined elsewhere: `wandb.agent(function,
    count)`.
    """
    if found := list(check_sendable((), config)):
        return found
    space, problems = parse_parameters(config.get("parameters", {}))
    if "parameters" in config:
        found += problems
    elif not has_search_space(config):
        hint = find_misspelt(config, "parameters", TOP)
        hint = hint or "add parameters: {lr: {values: [0.1]}}"
        found.append(problem(("parameters",), "missing", hint))
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
