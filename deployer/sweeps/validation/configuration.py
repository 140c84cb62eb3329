"""Every complaint about a configuration that YAML could read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployer.sweeps.parameters.parse import parse_parameters
from deployer.sweeps.problem import Problem
from deployer.sweeps.program import check_command
from deployer.sweeps.validation.early_terminate import check_early_terminate
from deployer.sweeps.validation.keys import TOP, Key, check_keys, find_misspelt
from deployer.sweeps.validation.method import check_method
from deployer.sweeps.validation.metric import check_metric
from deployer.sweeps.validation.parameters import check_bounds, check_parameters
from deployer.sweeps.validation.run_cap import check_end, check_run_cap
from deployer.sweeps.validation.scheduler import check_scheduler, has_search_space
from deployer.sweeps.validation.texts import check_sendable, check_start, check_texts


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
