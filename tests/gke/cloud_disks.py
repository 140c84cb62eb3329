"""Disks, forwarding rules and target pools: what load balancers and claims leave behind.

A disk of a claim carries the cluster's name and location, and no label that anybody else gave the
cluster; its nodes' disks have these, too. The forwarding rule of a Service
carries no label at all, only a description with the Service's name: the cluster can be told from
the target pool of the same name, whose instances are the cluster's nodes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from google.cloud.compute_v1 import Disk, ForwardingRule, TargetPool
from google.cloud.container_v1 import Cluster

from tests.gke.cloud_faults import Code, Fault, invalid, not_found
from tests.gke.cloud_state import Estate, Flight, Key, is_zone

FILTER = re.compile(r"labels\.\"?([-_a-z0-9]+)\"?\s*(=|:|eq)\s*\"?([-_a-z0-9*.]*)\"?")
Thing = Disk | ForwardingRule | TargetPool


class Compute:
    """Answers each request of Compute Engine."""

    def __init__(self, estate: Estate) -> None:
        self.estate = estate

    def answer(
        self, method: str, route: re.Match[str], query: Mapping[str, list[str]], fault: Fault | None
    ) -> Mapping[str, Any]:
        """Answer one request with what becomes its JSON."""
        self.estate.settle()
        if route["project"] != self.estate.project:
            raise not_found(f"projects/{route['project']}")
        if route["kind"] == "operations":
            return self._write(self.find_flight(route))
        if method == "aggregatedList":
            return self._list_everywhere(route["kind"], query.get("filter", [""])[0])
        key = (route["scope"].split("/")[1], route["name"] or "")
        if method == "delete":
            return self._delete(route["kind"], key, fault)
        thing = self._things(route["kind"]).get(key)
        if thing is None:
            raise not_found(self._path(route["kind"], key))
        if method == "setLabels":
            return self._set_labels(thing, self._path(route["kind"], key), query["body"][0], fault)
        return _to_json(thing)

    def _set_labels(
        self, thing: Thing, path: str, body: str, fault: Fault | None
    ) -> Mapping[str, Any]:
        """Replace a thing's labels, if the caller has seen the present ones."""
        assert not isinstance(thing, TargetPool)
        wanted = json.loads(body)
        if wanted.get("labelFingerprint", "") != thing.label_fingerprint:
            message = "Labels fingerprint either invalid or resource labels have changed"
            raise Fault(Code.FAILED_PRECONDITION, message, "conditionNotMet")

        def finish() -> None:
            if fault is None:
                thing.labels = wanted["labels"]
                thing.label_fingerprint = f"{thing.label_fingerprint}1"

        place = path.split("/")[3]
        return self._write(self.estate.begin("setLabels", place, path, finish, fault))

    def _things(self, kind: str) -> dict[Key, Thing]:
        if kind == "disks":
            return {**self.estate.disks, **dict(_list_boot_disks(self.estate))}
        rules: dict[Key, Thing] = {**self.estate.rules}
        return rules if kind == "forwardingRules" else {**self.estate.target_pools}

    def _list_everywhere(self, kind: str, wanted: str) -> Mapping[str, Any]:
        items: dict[str, dict[str, Any]] = {"regions/elsewhere-north1": {"warning": NOTHING}}
        items |= {f"{_scope(one)}/{one}": {"warning": SILENT} for one in self.estate.silent_zones}
        for (place, _), thing in self._things(kind).items():
            if place in self.estate.silent_zones:
                continue
            if _matches(dict(getattr(thing, "labels", {})), wanted):
                scope = items.setdefault(f"{_scope(place)}/{place}", {kind: []})
                scope[kind].append(_to_json(thing))
        return {"kind": f"compute#{kind}AggregatedList", "id": kind, "items": items}

    def _delete(self, kind: str, key: Key, fault: Fault | None) -> Mapping[str, Any]:
        thing = self._things(kind).get(key)
        path = self._path(kind, key)
        if thing is None:
            raise not_found(path)
        self._refuse_used(kind, path, thing)

        def finish() -> None:
            if fault is None:
                owner = {"disks": self.estate.disks, "forwardingRules": self.estate.rules}
                owner.get(kind, self.estate.target_pools).pop(key, None)

        return self._write(self.estate.begin("delete", key[0], path, finish, fault))

    def _refuse_used(self, kind: str, path: str, thing: Thing) -> None:
        users = [str(user) for user in thing.users] if isinstance(thing, Disk) else []
        if kind == "targetPools":
            rules = self.estate.rules.values()
            users = [r.self_link for r in rules if r.target.endswith(f"/{thing.name}")]
        if users:
            message = f"The resource '{path}' is already being used by '{users[0]}'"
            raise Fault(Code.INVALID_ARGUMENT, message, IN_USE)

    def _path(self, kind: str, key: Key) -> str:
        return f"projects/{self.estate.project}/{_scope(key[0])}/{key[0]}/{kind}/{key[1]}"

    def find_flight(self, route: re.Match[str]) -> Flight:
        """Return the operation that a path names."""
        flight = self.estate.flights.get(route["name"] or "")
        if flight is None:
            raise not_found(f"{route['scope']}/operations/{route['name']}")
        return flight

    def _write(self, flight: Flight) -> Mapping[str, Any]:
        content: dict[str, Any] = {
            "kind": "compute#operation",
            "id": "1",
            "name": flight.name,
            "operationType": flight.kind,
            "status": flight.status,
            "progress": int(flight.share * 100),
            "targetLink": _link(flight.target),
            "zone" if "/zones/" in flight.target else "region": flight.location,
            "insertTime": flight.started,
        }
        if flight.done and flight.fault is not None:
            reason = flight.fault.reason or flight.fault.code.name
            content["error"] = {"errors": [{"code": reason, "message": flight.fault.message}]}
            content["httpErrorStatusCode"] = 400
            content["httpErrorMessage"] = "BAD REQUEST"
        return content


# The older kind of reason, which Compute Engine gives without further details.
IN_USE = "resourceInUseByAnotherResource"
SILENT = {"code": "UNREACHABLE", "message": "The scope could not be reached."}
NOTHING = {"code": "NO_RESULTS_ON_PAGE", "message": "There are no results for scope on this page."}


def _scope(place: str) -> str:
    return "zones" if is_zone(place) else "regions"


def _link(path: str) -> str:
    return f"https://www.googleapis.com/compute/v1/{path}"


def _to_json(thing: Thing) -> dict[str, Any]:
    kind = type(thing)
    shown: dict[str, Any] = kind.to_dict(
        thing, use_integers_for_enums=False, preserving_proto_field_name=False
    )
    return {name: value for name, value in shown.items() if value not in ("", 0, [], {}, None)}


def _matches(labels: Mapping[str, str], wanted: str) -> bool:
    """Apply a filter of labels joined by AND; another filter is refused, not guessed."""
    for part in re.split(r"\s+AND\s+|(?<=\))\s*(?=\()", wanted) if wanted else []:
        found = FILTER.fullmatch(part.strip().strip("()").strip())
        if found is None:
            raise invalid(f"Invalid value for field 'filter': '{wanted}'.")
        value = labels.get(found[1])
        if value is None or (found[3] not in ("*", ".*") and value != found[3]):
            return False
    return True


def label_disk(cluster: Cluster) -> dict[str, str]:
    """Return the labels that GKE gives the disk of a claim."""
    return {
        "goog-k8s-cluster-name": cluster.name,
        "goog-k8s-cluster-location": cluster.location,
    }


def list_nodes(cluster: Cluster) -> Iterator[tuple[str, str, str]]:
    """Yield the pool, zone and name of every node that is there from the beginning."""
    for pool in cluster.node_pools:
        for zone in pool.locations:
            part = hashlib.sha256(f"{cluster.id}{pool.name}{zone}".encode()).hexdigest()
            for number in range(pool.initial_node_count):
                yield pool.name, zone, f"gke-{cluster.name}-{pool.name}-{part[:8]}-{number:04x}"


def _list_boot_disks(estate: Estate) -> Iterator[tuple[Key, Disk]]:
    for cluster in estate.clusters.values():
        for pool, zone, name in list_nodes(cluster):
            labels = {
                **dict(cluster.resource_labels),
                **label_disk(cluster),
                "goog-gke-node": "",
                "goog-k8s-node-pool-name": pool,
            }
            path = f"projects/{estate.project}/zones/{zone}"
            disk = Disk(name=name, zone=_link(path), status="READY", size_gb=50, labels=labels)
            disk.users = [_link(f"{path}/instances/{name}")]
            disk.self_link = _link(f"{path}/disks/{name}")
            yield (zone, name), disk
