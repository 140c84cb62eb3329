"""The registry of executors, by their names in `--on`; nothing else lists them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.executors.base import Executor
from deployer.waiting import waiting_for

Opener = Callable[[str, Project], Executor]

# The location of each class; imported on use, since clients of clouds are slow to import.
_EXECUTORS: dict[str, str | Opener] = {
    "local": "deployer.executors.local.executor:LocalExecutor",
    "kubernetes": "deployer.executors.kubernetes.executor:KubernetesExecutor",
    "gke": "deployer.executors.gke.executor:GkeExecutor",
}


def register(name: str, executor: str | Opener) -> None:
    """Add an executor: a subclass of `Executor`, or its `package.module:Class`."""
    _EXECUTORS[name] = executor


def unregister(name: str) -> None:
    """Remove an added executor; its running agents are left alone."""
    del _EXECUTORS[name]


def list_names() -> tuple[str, ...]:
    return tuple(_EXECUTORS)


def find_executor(project: Project, on: str | None = None) -> Executor:
    """Return the executor of `on`, else of the project's `--on`; contacts nothing."""
    name = on or project.on
    executor = _EXECUTORS.get(name)
    if executor is None:  # a sweep's record may name a removed executor
        known = ", ".join(_EXECUTORS)
        raise ConfigError("--on", f"'{name}' is not an executor", f"one of: {known}")
    if isinstance(executor, str):
        module, _, attribute = executor.partition(":")
        with waiting_for(f"the libraries of --on {name}"):
            executor = getattr(import_module(module), attribute)
    opener: Opener = executor
    return opener(name, project)
