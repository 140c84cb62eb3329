"""Warnings about a sweep's configuration; what W&B accepts is accepted."""

from __future__ import annotations

from typing import Any

from deployer.backend.db.sweeps import KNOWN_CONFIGS, parse_config
from deployer.backend.refusal import Refusal
from deployer.backend.scheduling.search.engine import find_missing_package
from deployer.backend.scheduling.search.suggest import refusals
from deployer.sweeps.problem import Problem, join_path
from deployer.sweeps.validation.configuration import check_content
from deployer.sweeps.validation.keys import Key
from deployer.sweeps.validation.scheduler import has_local_scheduler

# What this server knows besides what W&B does.
OWN_KEYS = {
    "seed": Key("integer"),
    "retries": Key("integer"),
}
LOCAL_CONTROLLER = (
    "this server chooses the configurations itself and serves no local controller: leave out"
    " `controller`, or let `wandb sweep-scheduler` choose them"
)


class Unread(Exception):
    """A configuration that has to be read before the writer is asked, which waits for nobody."""

    def __init__(self, config: str) -> None:
        super().__init__("a sweep's configuration was not read yet")
        self.config = config


_warnings: dict[str, list[str]] = {}  # of the configurations that were read last


def is_read(config: str) -> bool:
    """Return True if `read_config` has no work with a configuration."""
    return config in _warnings


def read_config(config: str) -> list[str]:
    """Return the warnings of a configuration; refuse with 400 one that no run could come from."""
    if config not in _warnings:
        _check_supported(parse_config(config))
        while len(_warnings) >= KNOWN_CONFIGS:
            _warnings.pop(next(iter(_warnings)), None)
        _warnings[config] = list_warnings(parse_config(config))
    return _warnings[config]


def _check_supported(settings: dict[str, Any]) -> None:
    if has_local_scheduler(settings):
        return  # whoever runs it chooses the configurations
    problems = refusals(settings)
    controller = settings.get("controller")
    if isinstance(controller, dict) and controller.get("type") == "local":
        problems.append(LOCAL_CONTROLLER)
    missing = find_missing_package() if settings.get("method") == "bayes" else None
    if missing:
        problems.append(missing)
    if problems:
        raise Refusal(400, "; ".join(problems))


def list_warnings(settings: dict[str, Any]) -> list[str]:
    """Return what is doubtful, a sentence each, as W&B's `configValidationWarnings`."""
    return [_worded(found) for found in check_content(settings, OWN_KEYS)]


def _worded(found: Problem) -> str:
    hint = f" ({found.hint})" if found.hint else ""
    return f"{join_path(found.path)}: {found.message}{hint}"
