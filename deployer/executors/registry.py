"""The executors by the names that `--on` has; the only place that knows which there are."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.executors.base import Executor
from deployer.waiting import waiting_for

Opener = Callable[[str, Project], Executor]

# Where each class is; imported when its name is used, since clients of clouds take their time.
_EXECUTORS: dict[str, str | Opener] = {
    "local": "deployer.executors.local.executor:LocalExecutor",
    "kubernetes": "deployer.executors.kubernetes.executor:KubernetesExecutor",
    "gke": "deployer.executors.gke.executor:GkeExecutor",
}


def register(name: str, executor: str | Opener) -> None:
    """Add an executor: a subclass of `Executor`, or the text `package.module:Class` for it."""
    _EXECUTORS[name] = executor


def unregister(name: str) -> None:
    """Take an executor away that was added; running agents of it are left alone."""
    del _EXECUTORS[name]


def list_names() -> tuple[str, ...]:
    return tuple(_EXECUTORS)


def find_executor(project: Project, on: str | None = None) -> Executor:
    """Return what `--on` names, or what `on` does; contacts nothing."""
    name = on or project.on
    executor = _EXECUTORS.get(name)
    if executor is None:  # a sweep's record may name one that is gone
        known = ", ".join(_EXECUTORS)
        raise ConfigError("--on", f"'{name}' is not an executor", f"one of: {known}")
    if isinstance(executor, str):
        module, _, attribute = executor.partition(":")
        with waiting_for(f"the libraries of --on {name}"):
            executor = getattr(import_module(module), attribute)
    opener: Opener = executor
    return opener(name, project)
