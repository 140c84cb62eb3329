"""The executors by the names that `--on` has; the only place that knows which there are."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.executors.base import Executor
from deployer.executors.target import Target
from deployer.waiting import waiting_for

Opener = Callable[[str, Project], Target]

# Where each class is; imported when its name is used, since clients of clouds take their time.
_TARGETS: dict[str, str | Opener] = {
    "local": "deployer.executors.local.target:LocalTarget",
    "kubernetes": "deployer.executors.kubernetes.target:KubernetesTarget",
    "gke": "deployer.executors.gke.target:GkeTarget",
}


def register(name: str, target: str | Opener) -> None:
    """Add an executor: a subclass of `Target`, or the text `package.module:Class` for it."""
    _TARGETS[name] = target


def unregister(name: str) -> None:
    """Take an executor away that was added; running agents of it are left alone."""
    del _TARGETS[name]


def list_names() -> tuple[str, ...]:
    """Return what `--on` may say."""
    return tuple(_TARGETS)


def find_target(project: Project, on: str | None = None) -> Target:
    """Return what `--on` names, or what `on` does; contacts nothing."""
    name = on or project.on
    target = _TARGETS.get(name)
    if target is None:  # a sweep's record may name one that is gone
        raise ConfigError("--on", f"'{name}' is not an executor", f"one of: {', '.join(_TARGETS)}")
    if isinstance(target, str):
        module, _, attribute = target.partition(":")
        with waiting_for(f"Python to load what --on {name} needs"):
            target = getattr(import_module(module), attribute)
    opener: Opener = target
    return opener(name, project)


def open_executor(project: Project, on: str | None = None) -> Executor:
    """Return the executor that `--on` names, or `on`; raises ConfigError, CloudError."""
    return find_target(project, on).open()
