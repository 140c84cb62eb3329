"""One cluster and one namespace: read, apply, create, patch and delete objects as plain dicts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from kubernetes import dynamic

from deployer.config.owner import Owner, build_owner, load_random_owner
from deployer.errors import KubeError
from deployer.kube.access import Access, load_access, make_cache_file, open_websocket
from deployer.kube.answers import parse_answer, read_ahead_seconds
from deployer.kube.failures import Attempt
from deployer.kube.kinds import ACCESS_REVIEW, SELF_REVIEW, Kind, Manifest, kind_of
from deployer.kube.names import read_owner, stamp_owner
from deployer.kube.resending import Resender
from deployer.waiting import COMMAND, TIMEOUTS_SECONDS

T = TypeVar("T")
FIELD_MANAGER = "deployer"
COLLECTION_PATIENCE = 10  # times as long: the server answers once all 1,000 are deleted
MERGE_PATCH = "application/merge-patch+json"


def open_kube(
    context: str | None = None,
    namespace: str | None = None,
    *,
    environment: Mapping[str, str],
    owner: str | None = None,
) -> Kube:
    """Return a client of a cluster: the kubeconfig's context and namespace unless others are given.

    `owner` names the owner of what it creates. Contacts nothing. Raises ConfigError.
    """
    return Kube(load_access(context, namespace, environment), owner=owner)


@dataclass
class _Clock:
    """How far a server's clock is ahead of ours; one for all clients of the server."""

    ahead_seconds: float = 0.0


class Kube:
    """A client. Every method raises KubeError and may be called again after any failure.

    `owner` names the owner of what is created, else the server does. `sleep` waits before a request
    is sent again.
    """

    def __init__(
        self,
        access: Access,
        timeouts_seconds: tuple[float, float] = TIMEOUTS_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
        owner: str | None = None,
    ) -> None:
        self.namespace = access.namespace
        self.context = access.context
        self.server = access.server
        self._access = access
        self._timeouts_seconds = timeouts_seconds
        self._sleep = sleep
        self._owner_name = owner
        self._resender = Resender(self._may, sleep)
        self._dynamic: Any = None
        self._clock = _Clock()

    def in_namespace(self, namespace: str) -> Kube:
        """Return a client for another namespace of the same cluster; empty: lists span them all."""
        access = replace(self._access, namespace=namespace)
        other = Kube(access, self._timeouts_seconds, self._sleep, self._owner_name)
        other._dynamic, other._clock = self._dynamic, self._clock
        if "owner" in vars(self):
            vars(other)["owner"] = self.owner
        return other

    @cached_property
    def owner(self) -> Owner:
        """The owner of what is created: the one named, the server's user, else the state folder's.

        Raises KubeError.
        """
        if self._owner_name:
            return build_owner(self._owner_name)
        review = {"apiVersion": SELF_REVIEW.api_version, "kind": SELF_REVIEW.kind}
        path = f"/apis/{SELF_REVIEW.api_version}/{SELF_REVIEW.plural}"
        try:
            answer = self._request("post", path, SELF_REVIEW, review)
            return build_owner(str(answer["status"]["userInfo"]["username"]))
        except KubeError as error:
            if error.status not in (403, 404):  # refused, or older than Kubernetes 1.28
                raise
            return load_random_owner()

    @property
    def fingerprint(self) -> str:
        """Return a hash of the server's address and CA."""
        return self._access.fingerprint

    def owns(self, item: Mapping[str, Any]) -> bool:
        """Return True if an object carries the owner label of this client."""
        return read_owner(item) == self.owner

    def now(self) -> float:
        """Return the server's clock, as of its last answer, in seconds since the epoch."""
        return time.time() + self._clock.ahead_seconds

    @property
    def ahead_seconds(self) -> float:
        """Return how far the server's clock is ahead of ours, as of its last answer."""
        return self._clock.ahead_seconds

    def read_version(self) -> str:
        """Return the server's version, such as v1.34.10."""
        return str(self._read("/version").get("gitVersion", ""))

    def find_version(self, group: str) -> str | None:
        """Return the version in which the server prefers a group of kinds; None without it."""
        try:
            return str(self._read(f"/apis/{group}")["preferredVersion"]["version"])
        except KubeError as error:
            if error.status != 404:
                raise
            return None

    def get(self, kind: Kind, name: str) -> Manifest | None:
        """Return one object, None if it is not there."""
        try:
            return self._send("get", kind, name, "get", {"name": name})
        except KubeError as error:
            if error.status != 404:
                raise
            return None

    def list_objects(
        self, kind: Kind, selector: str = "", field_selector: str = "", limit: int | None = None
    ) -> list[Manifest]:
        """Return the objects of a kind that have these labels and fields: all, or a few."""
        query = {
            "label_selector": selector or None,
            "field_selector": field_selector or None,
            "limit": limit,
        }
        items = self._send("list", kind, "", "get", query).get("items") or ()
        return [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in items]

    def apply(self, manifest: Manifest, dry_run: bool = False) -> Manifest:
        """Make an object match the manifest (server-side apply), whoever created it."""
        options = {
            "body": manifest if dry_run else stamp_owner(manifest, self.owner),
            "field_manager": FIELD_MANAGER,
            "force_conflicts": True,
            "dry_run": "All" if dry_run else None,
        }
        name = manifest["metadata"]["name"]
        return self._send("patch", kind_of(manifest), name, "server_side_apply", options)

    def create(self, manifest: Manifest, same: str = "", dry_run: bool = False) -> Manifest:
        """Create an object.

        With `generateName` a lost answer is no reason to create another one: an object with the
        labels of the selector `same` counts as this one.
        """
        kind, metadata = kind_of(manifest), manifest["metadata"]
        named = metadata.get("name")
        repeatable = bool(named) or dry_run
        options = {
            "body": manifest if dry_run else stamp_owner(manifest, self.owner),
            "field_manager": FIELD_MANAGER,
            "dry_run": "All" if dry_run else None,
        }
        shown = str(named or f"{metadata.get('generateName')}*")
        try:
            return self._send("create", kind, shown, "create", options, repeatable)
        except KubeError as error:
            found = () if repeatable or not error.passing else self.list_objects(kind, same)
            if not found:
                raise
            return found[0]

    def create_once(self, manifest: Manifest, same: str = "") -> bool:
        """Create an object unless it is there, as `create` does; tell whether it was not."""
        try:
            self.create(manifest, same)
        except KubeError as error:
            if error.reason != "AlreadyExists":
                raise
            return False
        return True

    def patch(self, kind: Kind, name: str, changes: Manifest) -> Manifest:
        """Change some fields of an object (JSON merge patch)."""
        options = {
            "name": name,
            "body": changes,
            "content_type": MERGE_PATCH,
            "field_manager": FIELD_MANAGER,
        }
        return self._send("patch", kind, name, "patch", options)

    def delete(
        self,
        kind: Kind,
        name: str,
        propagation: str = "Background",
        grace_seconds: int | None = None,
    ) -> None:
        """Delete one object; it may be gone already. With `grace_seconds=0` without waiting."""
        # In the body: as a query a grace of 0 is not sent.
        wishes = {"propagationPolicy": propagation, "gracePeriodSeconds": grace_seconds}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **wishes}
        try:
            self._send("delete", kind, name, "delete", {"name": name, "body": body})
        except KubeError as error:
            if error.status != 404:
                raise

    def delete_collection(self, kind: Kind, selector: str, propagation: str = "Background") -> None:
        """Delete all objects of a kind that have these labels, with one request."""
        assert selector  # without one it would delete everybody's
        connect, answer = self._timeouts_seconds
        options = {
            "label_selector": selector,
            "propagation_policy": propagation,
            "_request_timeout": (connect, answer * COLLECTION_PATIENCE),
        }
        self._send("deletecollection", kind, "", "delete", options)

    def is_allowed(self, verb: str, kind: Kind, subresource: str = "") -> bool:
        """Ask whether we may do this in our namespace."""
        attributes = {"namespace": self.namespace, "verb": verb, "resource": kind.plural}
        attributes |= {"group": kind.group, "subresource": subresource}
        review = {
            "apiVersion": ACCESS_REVIEW.api_version,
            "kind": ACCESS_REVIEW.kind,
            "spec": {"resourceAttributes": attributes},
        }
        answer = self._send("create", ACCESS_REVIEW, "", "create", {"body": review})
        return bool(answer["status"].get("allowed"))

    def open_log(self, pod: str, query: Mapping[str, str]) -> Any:
        """Return a pod's log as an open HTTP response, to be read by `deployer.kube.logs`."""
        kind = Kind("v1", "Pod", "pods/log")

        def send() -> Any:
            return self._find_resource("v1", "Pod").log.get(
                name=pod,
                namespace=self.namespace,
                serialize=False,
                query_params=list(query.items()),
            )

        return self._resender.send(
            send, self.attempt("read the log of", kind, pod), repeatable=True
        )

    def open_tunnel(self, pod: str, port: int) -> Any:
        """Return a WebSocket to a port of a pod, to be read by `deployer.kube.port_forward`."""
        kind = Kind("v1", "Pod", "pods/portforward")
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/portforward?ports={port}"
        attempt = self.attempt("forward a port of", kind, pod)
        return self._resender.send(
            lambda: open_websocket(self._access, path), attempt, repeatable=True
        )

    def attempt(self, verb: str, kind: Kind, name: str) -> Attempt:
        """Return how errors describe a call."""
        return Attempt(verb, kind, name, self.namespace, self.context, self.server)

    def _send(
        self,
        verb: str,
        kind: Kind,
        name: str,
        method: str,
        options: Mapping[str, Any],
        repeatable: bool = True,
    ) -> Manifest:
        def send() -> Manifest:
            resource = self._find_resource(kind.api_version, kind.kind)
            namespace = self.namespace if resource.namespaced else None
            answer = getattr(resource, method)(namespace=namespace, serialize=False, **options)
            # Read here: an answer can be cut off after its head.
            content = parse_answer(answer.data)
            self._read_clock(answer)
            return content

        return self._resender.send(send, self.attempt(verb, kind, name), repeatable)

    def _read(self, path: str) -> Manifest:
        """Return what the server says of itself at a path."""
        return self._request("get", path, Kind("v1", path, "version"))

    def _request(
        self, method: str, path: str, kind: Kind, body: Manifest | None = None
    ) -> Manifest:
        """Send a request that needs no list of kinds."""

        def send() -> Manifest:
            answer = self._client().request(method, path, body=body, serialize=False)
            self._read_clock(answer)
            return parse_answer(answer.data)

        return self._resender.send(send, self.attempt("read", kind, ""), repeatable=True)

    def _may(self, attempt: Attempt) -> bool:
        """Tell whether the server's rules allow an attempt, as far as it can say now."""
        try:
            return self.is_allowed(attempt.verb, attempt.kind)
        except KubeError:
            return False

    def _read_clock(self, answer: Any) -> None:
        """Compare clocks: ours may be minutes off, and lost agents are judged by the server's."""
        self._clock.ahead_seconds = read_ahead_seconds(answer, self._clock.ahead_seconds)

    def _find_resource(self, api_version: str, kind: str) -> Any:
        """Return the client's own object for a kind; ValueError if the server lists no kinds."""
        try:
            return self._client().resources.get(api_version=api_version, kind=kind)
        except (AttributeError, KeyError, TypeError) as error:
            # The client takes it for granted that a list of groups or kinds is complete.
            raise ValueError("the list of kinds is not complete") from error

    def _client(self) -> Any:
        if self._dynamic is None:
            cache_file = str(make_cache_file(self.server))
            self._dynamic = _Client(self._access.client, cache_file, self._timeouts_seconds)
        return self._dynamic


class _Client(dynamic.DynamicClient):
    """Gives each request a timeout, also its own for the list of kinds."""

    def __init__(self, client: Any, cache_file: str, timeouts_seconds: tuple[float, float]) -> None:
        self._timeouts_seconds = timeouts_seconds
        super().__init__(client, cache_file)

    def request(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        timeouts = options.pop("_request_timeout", None) or self._timeouts_seconds
        limited = COMMAND.limit(timeouts)
        send: Any = super().request
        return send(method, path, body=body, _request_timeout=limited, **options)
