"""The rule by which runs are stopped early; what is wrong there never stops the sweep itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployer.sweeps.problem import Place, Problems, doubt
from deployer.sweeps.validation.keys import HYPERBAND, check_keys, check_values

PATH: Place = ("early_terminate",)


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
