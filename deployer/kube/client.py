"""One cluster and one namespace: objects as plain dicts, parallel calls, the cluster's id."""

from __future__ import annotations

import gc
import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar

from kubernetes import dynamic
from kubernetes.client.exceptions import ApiException

from deployer.config.credentials import Owner, build_owner, drop_session, load_random_owner
from deployer.errors import ConfigError, KubeError
from deployer.kube.access import Access, load_access, open_websocket
from deployer.kube.failures import NOT_FOUND, ApiCall, Resender, build_missing_kind
from deployer.kube.objects import (
    ACCESS_REVIEW,
    CONFIG_MAP,
    NAMESPACE,
    POD,
    RULES_REVIEW,
    SELF_REVIEW,
    Kind,
    Manifest,
    kind_of,
    read_owner,
    stamp_owner,
)
from deployer.waiting import COMMAND, NO_ANSWER, TIMEOUTS_SECONDS

FIELD_MANAGER = "deployer"
COLLECTION_PATIENCE = 10  # times as long: the server answers once all 1,000 are deleted
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
JSON = "application/json"
UNAUTHORIZED = 401
SYSTEM = "kube-system"
ROOT_CA = "kube-root-ca.crt"  # Kubernetes puts one into each namespace
T = TypeVar("T")
THREADS = 16  # as many connections as the client keeps


def parse_answer(data: bytes) -> Manifest:
    """Parse an answer without `managedFields`, which are half of every object and unused here.

    The garbage collector pauses, since it would traverse a thousand pods repeatedly.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        content = json.loads(data)
        if not isinstance(content, dict):
            raise ValueError("the answer is not an object")
        for item in content.get("items") or ():
            item["metadata"].pop("managedFields", None)
        return content
    finally:
        if collects:
            gc.enable()


def read_ahead_seconds(answer: Any, known: float) -> float:
    """Return how far the server's clock is ahead of ours; `known` without a Date header."""
    said = getattr(answer, "headers", {}).get("Date")
    return parsedate_to_datetime(said).timestamp() - time.time() if said else known


def open_kube(
    context: str | None = None,
    namespace: str | None = None,
    *,
    environment: Mapping[str, str],
    owner: str | None = None,
) -> Kube:
    """Return a client of a cluster; context and namespace default to the kubeconfig's.

    `owner` names the owner of created objects. Contacts nothing. Raises ConfigError.
    """
    return Kube(load_access(context, namespace, environment), owner=owner)


@dataclass
class _Clock:
    """How far a server's clock is ahead of ours; shared by all clients of the server."""

    ahead_seconds: float = 0.0


class Kube:
    """A client. Every method raises KubeError and may be called again after any failure.

    `owner` names the owner of created objects, by default the server's user. `sleep` waits between
    attempts.
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
        self._resender = Resender(sleep)
        # Requests use paths alone, so the client need not read the server's list of kinds.
        connection = access.connection
        self._requests: Any = dynamic.DynamicClient(connection.client, discoverer=lambda *_: None)
        self._clock = _Clock()
        self._kinds: dict[Kind, Kind] = {}  # kinds of users' templates, with their plurals

    def in_namespace(self, namespace: str) -> Kube:
        """Return a client for another namespace of the same cluster; empty: lists span all."""
        access = replace(self._access, namespace=namespace)
        other = Kube(access, self._timeouts_seconds, self._sleep, self._owner_name)
        other._clock, other._kinds = self._clock, self._kinds
        if "owner" in vars(self):
            vars(other)["owner"] = self.owner
        return other

    @cached_property
    def owner(self) -> Owner:
        """The owner of created objects: the given name, the server's user, or the state folder's.

        Raises KubeError.
        """
        if self._owner_name:
            return build_owner(self._owner_name)
        try:
            answer = self._send("read", SELF_REVIEW, method="POST", body=_begin(SELF_REVIEW))
            return build_owner(drop_session(str(answer["status"]["userInfo"]["username"])))
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

    def with_context(self, hint: str) -> str:
        """Return a hint whose kubectl commands name this cluster's context."""
        if not self.context or "--context" in hint:
            return hint
        return hint.replace("kubectl ", f"kubectl --context {shlex.quote(self.context)} ")

    def now(self) -> float:
        """Return the server's clock, as of its last answer, in seconds since the epoch."""
        return time.time() + self._clock.ahead_seconds

    @property
    def ahead_seconds(self) -> float:
        """Return how far the server's clock is ahead of ours, as of its last answer."""
        return self._clock.ahead_seconds

    def read_version(self) -> str:
        return str(self._read("/version").get("gitVersion", ""))

    def find_version(self, group: str) -> str | None:
        """Return the server's preferred version of an API group; None if it has no such group."""
        try:
            return str(self._read(f"/apis/{group}")["preferredVersion"]["version"])
        except KubeError as error:
            if error.status != 404:
                raise
            return None

    def get(self, kind: Kind, name: str) -> Manifest | None:
        try:
            return self._send("get", kind, name)
        except KubeError as error:
            if error.reason != NOT_FOUND:
                raise
            return None

    def list_objects(
        self, kind: Kind, selector: str = "", field_selector: str = "", limit: int | None = None
    ) -> list[Manifest]:
        """Return the objects of a kind with these labels and fields, at most `limit`."""
        query = {"labelSelector": selector, "fieldSelector": field_selector, "limit": limit}
        items = self._send("list", kind, query=query).get("items") or ()
        return [{**_begin(kind), **item} for item in items]

    def apply(self, manifest: Manifest, dry_run: bool = False) -> Manifest:
        """Make an object match the manifest (server-side apply), whoever created it."""
        return self._send(
            "patch",
            kind_of(manifest),
            str(manifest["metadata"]["name"]),
            method="PATCH",
            body=manifest if dry_run else stamp_owner(manifest, self.owner),
            content=APPLY_PATCH,
            query={**_build_query(dry_run), "force": "true"},
        )

    def create(self, manifest: Manifest, same: str = "", dry_run: bool = False) -> Manifest:
        """Create an object.

        With `generateName`, a lost answer must not create a second object: an existing object that
        matches the selector `same` counts as this one.
        """
        kind, metadata = kind_of(manifest), manifest["metadata"]
        named = metadata.get("name")
        repeatable = bool(named) or dry_run
        try:
            return self._send(
                "create",
                kind,
                method="POST",
                body=manifest if dry_run else stamp_owner(manifest, self.owner),
                query=_build_query(dry_run),
                repeatable=repeatable,
                shown=str(named or f"{metadata.get('generateName')}*"),
            )
        except KubeError as error:
            found = () if repeatable or not error.passing else self.list_objects(kind, same)
            if not found:
                raise
            return found[0]

    def create_once(self, manifest: Manifest, same: str = "") -> bool:
        """Create an object unless it exists, like `create`; return True if it was created."""
        try:
            self.create(manifest, same)
        except KubeError as error:
            if error.reason != "AlreadyExists":
                raise
            return False
        return True

    def patch(self, kind: Kind, name: str, changes: Manifest) -> Manifest:
        """Change some fields of an object (JSON merge patch)."""
        query = _build_query()
        return self._send(
            "patch", kind, name, method="PATCH", body=changes, content=MERGE_PATCH, query=query
        )

    def delete(
        self,
        kind: Kind,
        name: str,
        propagation: str = "Background",
        grace_seconds: int | None = None,
    ) -> None:
        """Delete one object, if it exists. `grace_seconds=0` deletes it at once."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
            "gracePeriodSeconds": grace_seconds,
        }
        try:
            self._send("delete", kind, name, method="DELETE", body=body)
        except KubeError as error:
            if error.reason != NOT_FOUND:
                raise

    def delete_collection(self, kind: Kind, selector: str, propagation: str = "Background") -> None:
        assert selector  # without one it would delete other owners' objects
        query = {"labelSelector": selector, "propagationPolicy": propagation}
        self._send(
            "deletecollection", kind, method="DELETE", query=query, patience=COLLECTION_PATIENCE
        )

    def is_allowed(self, verb: str, kind: Kind, subresource: str = "") -> bool:
        attributes = {"namespace": self.namespace, "verb": verb, "resource": kind.plural}
        attributes |= {"group": kind.group, "subresource": subresource}
        body = {**_begin(ACCESS_REVIEW), "spec": {"resourceAttributes": attributes}}
        answer = self._send("create", ACCESS_REVIEW, method="POST", body=body)
        return bool(answer["status"].get("allowed"))

    def read_rules(self) -> tuple[list[Manifest], bool]:
        """Return the rules that grant us rights in our namespace, and whether they are complete.

        Webhook authorizers, such as GKE's, list none.
        """
        body = {**_begin(RULES_REVIEW), "spec": {"namespace": self.namespace}}
        try:
            status = self._send("create", RULES_REVIEW, method="POST", body=body)["status"]
        except KubeError as error:
            if error.status not in (403, 404):
                raise
            return [], False
        return status.get("resourceRules") or [], not status.get("incomplete")

    def open_log(self, pod: str, query: Mapping[str, str]) -> Any:
        """Return a pod's log as an open HTTP response, to be read by `agents/logs.py`."""
        path = f"{POD.path(self.namespace, pod)}/log"
        attempt = self.attempt("read the log of", POD._replace(plural="pods/log"), pod)
        return self._resender.send(
            lambda: self._request("GET", path, query=query), attempt, repeatable=True
        )

    def open_tunnel(self, pod: str, port: int) -> Any:
        """Return a WebSocket to a port of a pod, to be read by `deployer.kube.port_forward`."""
        path = f"{POD.path(self.namespace, pod)}/portforward?ports={port}"
        attempt = self.attempt("forward a port of", POD._replace(plural="pods/portforward"), pod)
        return self._resender.send(
            lambda: self._log_in(lambda: open_websocket(self._access, path)),
            attempt,
            repeatable=True,
        )

    def attempt(self, verb: str, kind: Kind, name: str) -> ApiCall:
        renewal = self._access.renewal
        return ApiCall(verb, kind, name, self.namespace, self.context, self.server, renewal)

    def _send(
        self,
        verb: str,
        kind: Kind,
        name: str = "",
        *,
        shown: str = "",
        repeatable: bool = True,
        **request: Any,
    ) -> Manifest:
        """Request an object, or all of the kind without a name; `shown` names it in errors."""
        attempt = self.attempt(verb, kind, shown or name)
        if not kind.plural:
            kind = self._find_kind(kind, attempt)
            attempt = replace(attempt, kind=kind)
        return self._ask(attempt, kind.path(self.namespace, name), repeatable, **request)

    def _read(self, path: str) -> Manifest:
        return self._ask(self.attempt("read", Kind("v1", path, "version"), ""), path)

    def _find_kind(self, kind: Kind, attempt: ApiCall) -> Kind:
        if kind in self._kinds:
            return self._kinds[kind]
        try:
            listed = self._read(kind.version_path).get("resources") or ()
        except KubeError as error:
            if error.status != 404:
                raise
            listed = ()
        # A subresource, such as pods/log, reports the kind of its argument.
        own = (one for one in listed if one["kind"] == kind.kind and "/" not in one["name"])
        found = next(own, None)
        if found is None:
            raise build_missing_kind(attempt)
        self._kinds[kind] = Kind(*kind[:2], found["name"], found["namespaced"])
        return self._kinds[kind]

    def _ask(
        self, attempt: ApiCall, path: str, repeatable: bool = True, **request: Any
    ) -> Manifest:
        def send() -> Manifest:
            answer = self._log_in(lambda: self._request(path=path, **request))
            # Parse inside the attempt: an answer can be cut off after its headers.
            content = parse_answer(answer.data)
            # Our clock may be minutes off, and lost agents are judged by the server's clock.
            self._clock.ahead_seconds = read_ahead_seconds(answer, self._clock.ahead_seconds)
            return content

        return self._resender.send(send, attempt, repeatable)

    def _log_in(self, send: Callable[[], Any]) -> Any:
        """Send a request with the current credentials; retry once if they have expired."""
        connection = self._access.connection
        try:
            used = connection.prepare()
            try:
                return send()
            except ApiException as error:
                if error.status != UNAUTHORIZED or not connection.refuse(used):
                    raise
            connection.prepare()
            return send()
        except ConfigError as error:  # valid at the command's start: a watcher retries
            raise KubeError(error.message, error.hint, status=NO_ANSWER) from error

    def _request(
        self,
        method: str = "GET",
        path: str = "",
        *,
        body: Manifest | None = None,
        content: str = JSON,
        query: Mapping[str, str | int | None] = MappingProxyType({}),
        patience: int = 1,
    ) -> Any:
        connect, answer = self._timeouts_seconds
        return self._requests.request(
            method,
            path,
            body=body,
            content_type=content,
            query_params=[(name, value) for name, value in query.items() if value],
            serialize=False,
            _request_timeout=COMMAND.limit((connect, answer * patience)),
        )


def _begin(kind: Kind) -> Manifest:
    return {"apiVersion": kind.api_version, "kind": kind.kind}


def _build_query(dry_run: bool = False) -> dict[str, str | None]:
    return {"fieldManager": FIELD_MANAGER, "dryRun": "All" if dry_run else None}


def identify_cluster(kube: Kube) -> str:
    """Return the uid of the namespace kube-system, else of the ConfigMap with the root CA.

    Without permission to read either, returns a hash of the server's address and CA. Raises
    KubeError.
    """
    found = _read(kube, SYSTEM) or _read(kube, ROOT_CA)
    return str(found["metadata"]["uid"]) if found else kube.fingerprint


def _read(kube: Kube, name: str) -> Manifest | None:
    try:
        return kube.get(NAMESPACE if name == SYSTEM else CONFIG_MAP, name)
    except KubeError as error:
        if not error.forbidden:
            raise
        return None


def do_all(act: Callable[[T], None], items: Sequence[T]) -> None:
    """Call `act` for each item concurrently; raise the first failure once all calls ended."""
    if len(items) <= 1:
        for item in items:
            act(item)
        return
    with ThreadPoolExecutor(max_workers=min(THREADS, len(items))) as pool:
        calls = [pool.submit(act, item) for item in items]
        try:
            for call in calls:
                call.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
