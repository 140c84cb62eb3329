"""Who chooses the configurations, if that is not the server: `scheduler` and `controller`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployer.sweeps.parameters.keys import shown
from deployer.sweeps.problem import Problems, doubt
from deployer.sweeps.validation.keys import CONTROLLER, SCHEDULER, check_keys, check_values

# The methods of each engine, as W&B's check has them.
METHODS = {"wandb": ("grid", "random", "bayes"), "optuna": ("custom",), "ax": ("custom",)}


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
    fitting = METHODS.get(str(scheduler.get("engine")), ())
    if fitting and "method" in config and method not in fitting:
        message = f"the engine {scheduler['engine']} does not serve method {method}"
        yield doubt(("scheduler", "engine"), message, f"write method: {' or '.join(fitting)}")
    if "source" not in scheduler:
        for key in ("optimizer", "search_space"):
            if key in scheduler:
                message = f"{key} is a function, but source is missing"
                yield doubt(("scheduler", key), message, "add source: and the file")
