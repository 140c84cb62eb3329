"""A pod of several agents, as each of them would see it if it were alone there; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from deployer.kube.names import AGENT_LABEL, AGENTS_ANNOTATION, PREFIX

Manifest = Mapping[str, Any]

DRAIN_ANNOTATION = f"{PREFIX}/drain"
# What the pod's entry point leaves of each agent: its name, then its supervisor's last words.
ENDED = re.compile(r"ended with exit code (\d+): ")


def list_names(item: Manifest) -> list[str]:
    """Return the names of all agents of a Job or pod that has several; else none."""
    return str(_annotations(item).get(AGENTS_ANNOTATION, "")).split()


def drain_annotation(item: Manifest, name: str) -> str:
    """Return the annotation of a Job's pods that lets one of their agents leave."""
    names = list_names(item)
    return f"{DRAIN_ANNOTATION}-{names.index(name) + 1}" if names else DRAIN_ANNOTATION


def line_prefix(item: Manifest, name: str) -> str:
    """Return what stands before each line that an agent prints; empty if it is alone."""
    return f"[{name}] " if list_names(item) else ""


def list_views(item: Manifest) -> Iterator[Manifest]:
    """Yield a Job or pod once for each of its agents, with what concerns that agent alone.

    That are its name, whether it is to leave, and how it has ended. Labels stay the pod's.
    """
    names = list_names(item)
    if not names:
        yield item
    for name in names:
        own = {**_annotations(item), AGENT_LABEL: name}
        if drain_annotation(item, name) in own:
            own[DRAIN_ANNOTATION] = "true"
        view = {**item, "metadata": {**item["metadata"], "annotations": own}}
        if item.get("status", {}).get("containerStatuses"):
            view["status"] = _view_status(item["status"], name)
        yield view


def _view_status(status: Manifest, name: str) -> Manifest:
    containers = [
        {**one, "state": {**state, "terminated": _view_end(state["terminated"], name)}}
        if (state := one.get("state") or {}).get("terminated")
        else one
        for one in status["containerStatuses"]
    ]
    return {**status, "containerStatuses": containers}


def _view_end(terminated: Manifest, name: str) -> Manifest:
    """Return how one agent has ended; as the whole pod, if that died before it could say."""
    lines = str(terminated.get("message") or "").splitlines()
    mine = next((line for line in lines if line.startswith(f"{name}: ")), "")
    found = ENDED.search(mine)
    return {**terminated, "message": mine, "exitCode": int(found[1])} if found else terminated


def _annotations(item: Manifest) -> Manifest:
    return item["metadata"].get("annotations") or {}
