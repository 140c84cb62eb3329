"""How many agents a paused sweep released, kept on its owner's ConfigMaps, which outlive Jobs."""

from __future__ import annotations

from deployer.executors.kubernetes.agents.agent_objects import annotations_of, path_of
from deployer.kube.client import Kube
from deployer.kube.kinds import CONFIG_MAP, Manifest
from deployer.kube.names import RELEASED_ANNOTATION, build_selector

SUPERVISOR = "supervisor"


def note_paused(kube: Kube, sweep_path: str, count: int) -> None:
    """Note how many agents were released; 0 when they are at work again."""
    value = str(count) if count else None
    for one in _list_maps(kube, sweep_path):
        if annotations_of(one).get(RELEASED_ANNOTATION) != value:
            change: Manifest = {"metadata": {"annotations": {RELEASED_ANNOTATION: value}}}
            kube.patch(CONFIG_MAP, one["metadata"]["name"], change)


def read_paused(kube: Kube, sweep_path: str) -> int:
    """Return how many agents were released; 0 if none were, or they are back."""
    noted = (annotations_of(one).get(RELEASED_ANNOTATION) for one in _list_maps(kube, sweep_path))
    return max((int(value) for value in noted if value and value.isdigit()), default=0)


def _list_maps(kube: Kube, sweep_path: str) -> list[Manifest]:
    maps = kube.list_objects(CONFIG_MAP, build_selector(sweep_path, SUPERVISOR))
    return [one for one in maps if path_of(one) == sweep_path and kube.owns(one)]
