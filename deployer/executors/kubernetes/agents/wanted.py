"""The wanted number of agents: one ConfigMap for each sweep and owner.

Updates are optimistic: a change applies only to the version that was read, so that concurrent
commands do not overwrite each other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from http import HTTPStatus
from itertools import count

from deployer.config.credentials import Owner
from deployer.config.document import MOST_REPLICAS
from deployer.errors import KubeError
from deployer.executors.base import WantedNumbers
from deployer.executors.kubernetes.agents.objects import path_of
from deployer.executors.kubernetes.manifests.overlay import build_metadata, overlay, without_none
from deployer.kube.client import Kube, do_all
from deployer.kube.objects import (
    CONFIG_MAP,
    OWNER_LABEL,
    WANTED,
    Manifest,
    build_hash,
    build_owned_name,
    build_selector,
)
from deployer.model import Plan, Wanted

NUMBER, LEAVING = "number", "leaving"
TRIES = 5  # for concurrent changes


def build_wanted(plan: Plan, owner: Owner, namespace: str | None) -> Manifest:
    """Return the ConfigMap with the number of agents that a plan asks for."""
    return _build(plan.sweep_path, owner, namespace, Wanted(plan.asked))


def _build(sweep_path: str, owner: Owner, namespace: str | None, wanted: Wanted) -> Manifest:
    name = name_wanted(sweep_path, owner)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": overlay({}, build_metadata(name, WANTED, sweep_path, namespace)),
        "data": without_none(_write(wanted)),
    }


def name_wanted(sweep_path: str, owner: Owner) -> str:
    """Return the ConfigMap's name; the hash separates equal ids of different projects."""
    return build_owned_name(sweep_path, owner, WANTED, build_hash(sweep_path.encode()))


class WantedMaps(WantedNumbers):
    """The caller's ConfigMaps; every method raises KubeError."""

    def __init__(self, open_client: Callable[[], Kube]) -> None:
        self._open = open_client

    def get(self, sweep_path: str) -> Wanted | None:
        found = _list(self._open(), sweep_path)
        return _read(found[0]) if found else None

    def change(self, sweep_path: str, change: Callable[[Wanted | None], Wanted | None]) -> None:
        """Replace the number by what `change` returns; None leaves it unchanged.

        `change` may be called again, also with its own result, if the server's answer was lost.
        """
        kube = self._open()
        for attempt in count(1):
            found = _list(kube, sweep_path)
            before = None
            with contextlib.suppress(KubeError):  # an unreadable number is replaced
                before = _read(found[0]) if found else None
            wanted = change(before)
            if wanted is None or wanted == before:
                return
            try:
                if found:
                    metadata, data = found[0]["metadata"], _write(wanted)
                    version = {"resourceVersion": metadata["resourceVersion"]}
                    kube.patch(CONFIG_MAP, metadata["name"], {"metadata": version, "data": data})
                else:
                    kube.create(_build(sweep_path, kube.owner, kube.namespace, wanted))
                return
            except KubeError as error:  # another process was faster
                known = error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
                if not known or attempt == TRIES:
                    raise

    def withdraw(self, sweep_path: str | None = None, *, everyone: bool = False) -> None:
        """Delete the ConfigMaps; without permission to delete one, set it to 0."""
        kube = self._open()

        def delete(item: Manifest) -> None:
            name = str(item["metadata"]["name"])
            try:
                kube.delete(CONFIG_MAP, name)
            except KubeError as error:
                if not error.forbidden:
                    raise
                kube.patch(CONFIG_MAP, name, {"data": _write(Wanted(0))})

        do_all(delete, _list(kube, sweep_path, everyone=everyone))


def _list(kube: Kube, sweep_path: str | None, *, everyone: bool = False) -> list[Manifest]:
    selector = build_selector(sweep_path, WANTED)
    if not everyone:
        selector += f",{OWNER_LABEL}={kube.owner.id}"
    found = kube.list_objects(CONFIG_MAP, selector)
    return [one for one in found if sweep_path in (None, path_of(one))]


def _read(item: Manifest) -> Wanted:
    """Return the number in a ConfigMap. Raises KubeError if it is invalid."""
    data = item.get("data") or {}
    number = str(data.get(NUMBER, ""))
    if not (number.isascii() and number.isdecimal() and int(number) <= MOST_REPLICAS):
        name, namespace = item["metadata"]["name"], item["metadata"]["namespace"]
        raise KubeError(
            f"ConfigMap {name} in namespace {namespace} does not contain a number of agents: "
            f"{number!r}",
            f"deployer agents up {path_of(item)} --replicas N sets it",
        )
    return Wanted(int(number), frozenset(str(data.get(LEAVING, "")).split()))


def _write(wanted: Wanted) -> Manifest:
    return {NUMBER: str(wanted.number), LEAVING: " ".join(sorted(wanted.leaving)) or None}
