"""The client of GKE: clusters, node pools and operations; every failure is a CloudError.

It sends requests and decides nothing. If an answer is lost, the caller checks whether the change
happened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import requests
from google.api_core import exceptions
from google.cloud import container_v1
from google.cloud.container_v1.services.cluster_manager.transports import (
    ClusterManagerGrpcTransport,
)
from google.oauth2 import service_account

from deployer.config.credentials import Owner, build_owner, load_random_owner
from deployer.errors import CloudError
from deployer.gke.api.credentials import (
    CONNECT_SECONDS,
    PATIENCE,
    READ_SECONDS,
    TOKEN_INFO,
    ApiPatience,
    call_within,
    find_account,
    find_credentials,
    refresh,
)
from deployer.gke.api.failures import CATCHABLE, REACH, CloudCall, translate_error
from deployer.gke.api.model import CloudCluster, CloudOperation, read_cluster, read_operation
from deployer.gke.specification import region_of
from deployer.waiting import TIMEOUTS_SECONDS, retry, waiting_for

T = TypeVar("T")
# The variables that gcloud uses, also for private endpoints.
CONTAINER_ENDPOINT = "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER"
COMPUTE_ENDPOINT = "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"
TOKEN_INFO_ENDPOINT = "CLOUDSDK_API_ENDPOINT_OVERRIDES_OAUTH2"
COMPUTE_ADDRESS = "https://compute.googleapis.com"
PROJECT_VARIABLES = ("GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT")
COMPUTE_API = "compute.googleapis.com"
LIST_CLUSTERS = "cannot list clusters"
MISSING_PAUSE_SECONDS = 1.0
PROJECT_HINT = "project: in the specification, or GOOGLE_CLOUD_PROJECT"


def open_gke(project: str | None, environment: Mapping[str, str], owner: str | None = None) -> Gke:
    """Return a client of a project: the given one, the environment's, or the credentials'.

    `owner` names the owner of the resources it creates. Uses the application default credentials,
    like every Google client. Contacts nothing except, without credentials, the local metadata
    server. Raises CloudError.
    """
    named = project or next((environment[v] for v in PROJECT_VARIABLES if environment.get(v)), "")
    attempt = CloudCall("cannot log in to Google's cloud", named)
    try:
        with waiting_for("Google Cloud (log in)"):
            credentials, found = call_within(
                READ_SECONDS, lambda: find_credentials(named=bool(named))
            )
    except CATCHABLE as error:
        raise translate_error(error, attempt) from error
    chosen = named or found
    if not chosen:
        raise CloudError("no project given, and the credentials name none", PROJECT_HINT)
    return Gke(chosen, credentials, environment, owner=owner)


class ClusterListing(NamedTuple):
    """Clusters, and the zones that do not answer and may contain more clusters."""

    clusters: tuple[CloudCluster, ...]
    missing_zones: tuple[str, ...]

    def check(self, locations: Iterable[str] | None = None) -> None:
        """Raise CloudError if a zone in the regions of these locations, or any, did not answer."""
        regions = None if locations is None else {*map(region_of, locations)}
        missing = [z for z in self.missing_zones if regions is None or region_of(z) in regions]
        if missing:
            raise CloudError(
                f"{LIST_CLUSTERS}: no response from {', '.join(missing)}",
                "https://status.cloud.google.com; then type the command again",
                "MISSING_ZONES",
            )


class Gke:
    """The client. Reads are retried after transient failures; changes are not (duplicates).

    `owner` names the owner of created resources; by default the credentials' account does. `sleep`
    waits before a retry.
    """

    def __init__(
        self,
        project: str,
        credentials: Any,
        environment: Mapping[str, str],
        timeouts_seconds: tuple[float, float] = (READ_SECONDS, READ_SECONDS),
        sleep: Callable[[float], None] = time.sleep,
        owner: str | None = None,
        patience: ApiPatience = PATIENCE,
    ) -> None:
        self.project = project
        self.owner_name = owner
        self.credentials = credentials
        self.environment = environment
        self.compute_endpoint = environment.get(COMPUTE_ENDPOINT, "")
        self._endpoint = environment.get(CONTAINER_ENDPOINT, "")
        self._token_info = environment.get(TOKEN_INFO_ENDPOINT) or TOKEN_INFO
        self._timeouts_seconds = timeouts_seconds
        self._sleep = sleep
        self._patience = patience

    @cached_property
    def owner(self) -> Owner:
        """The owner of created resources: the given one, the account, or the state folder's.

        Raises CloudError.
        """
        if self.owner_name:
            return build_owner(self.owner_name)
        attempt = CloudCall("cannot determine your Google account", self.project)
        account = self.read(lambda: find_account(self.credentials, self._token_info), attempt)
        return build_owner(account) if account else load_random_owner()

    def get_time(self) -> float:
        """Return Google's clock, in seconds since the epoch. Raises CloudError."""

        def send() -> float:
            address = self.compute_endpoint or COMPUTE_ADDRESS
            answer = requests.head(address, timeout=TIMEOUTS_SECONDS)
            return parsedate_to_datetime(answer.headers["Date"]).timestamp()

        attempt = CloudCall("cannot read Google's clock", self.project, api=COMPUTE_API)
        try:
            return self.read(send, attempt)
        except (KeyError, ValueError) as error:
            raise CloudError(f"{attempt.words}: the answer has no date", REACH) from error

    def get_token(self) -> str:
        """Return a bearer token that is valid for at least some minutes. Raises CloudError."""

        def renew() -> None:
            if not self.credentials.valid:
                refresh(self.credentials)

        self.read(renew, CloudCall("cannot get a token", self.project))
        return str(self.credentials.token)

    def list_clusters(self) -> ClusterListing:
        """Return all clusters of the project, ours or not, in all locations that answer."""
        request = {"parent": self._parent("-")}
        for last in (False, True):
            answer = self._read("list_clusters", request, CloudCall(LIST_CLUSTERS, self.project))
            if last or not answer.missing_zones:
                break
            self._sleep(MISSING_PAUSE_SECONDS)
        found = tuple(read_cluster(cluster) for cluster in answer.clusters)
        return ClusterListing(found, tuple(answer.missing_zones))

    def get_cluster(self, location: str, name: str) -> CloudCluster | None:
        attempt = CloudCall(f"cannot get cluster {name}", self.project, location, name)
        try:
            found = self._read("get_cluster", {"name": self._name(location, name)}, attempt)
        except CloudError as error:
            if error.reason != "NOT_FOUND":
                raise
            return None
        return read_cluster(found)

    def create_cluster(self, location: str, cluster: container_v1.Cluster) -> CloudOperation:
        """Request a cluster; ALREADY_EXISTS if the location has one of that name."""
        words = f"cannot create cluster {cluster.name} in {location}"
        request = {"parent": self._parent(location), "cluster": cluster}
        attempt = CloudCall(words, self.project, location, cluster.name)
        return self._change("create_cluster", request, attempt)

    def delete_cluster(self, location: str, name: str) -> CloudOperation | None:
        """Request the deletion of a cluster; None if it does not exist."""
        words = f"cannot delete cluster {name} in {location}"
        attempt = CloudCall(words, self.project, location, name)
        return self._delete("delete_cluster", self._name(location, name), attempt)

    def set_labels(self, cluster: CloudCluster, labels: Mapping[str, str]) -> CloudOperation:
        """Request other labels for a cluster, unless someone changed them in the meantime."""
        attempt = CloudCall(
            f"cannot label {cluster.words}", self.project, cluster.location, cluster.name
        )
        request = {
            "name": self._name(cluster.location, cluster.name),
            "resource_labels": dict(labels),
            "label_fingerprint": cluster.label_fingerprint,
        }
        return self._change("set_labels", request, attempt)

    def create_pool(self, cluster: CloudCluster, pool: container_v1.NodePool) -> CloudOperation:
        """Request a node pool; ALREADY_EXISTS if the cluster has one of that name."""
        words = f"cannot create pool {pool.name} in {cluster.words}"
        attempt = CloudCall(words, self.project, cluster.location, cluster.name)
        parent = self._name(cluster.location, cluster.name)
        return self._change("create_node_pool", {"parent": parent, "node_pool": pool}, attempt)

    def delete_pool(self, cluster: CloudCluster, name: str) -> CloudOperation | None:
        """Request the deletion of a node pool; None if it does not exist."""
        words = f"cannot delete pool {name} in {cluster.words}"
        attempt = CloudCall(words, self.project, cluster.location, cluster.name)
        full = f"{self._name(cluster.location, cluster.name)}/nodePools/{name}"
        return self._delete("delete_node_pool", full, attempt)

    def list_operations(self, location: str) -> tuple[CloudOperation, ...]:
        """Return a location's operations: the running ones, and those that ended recently."""
        attempt = CloudCall(f"cannot list operations in {location}", self.project, location)
        answer = self._read("list_operations", {"parent": self._parent(location)}, attempt)
        return tuple(read_operation(operation) for operation in answer.operations)

    def get_operation(self, operation: CloudOperation) -> CloudOperation | None:
        """Return the current state of an operation; None if Google has forgotten it."""
        words = f"cannot get operation {operation.name}"
        attempt = CloudCall(words, self.project, operation.location, operation.cluster)
        name = f"{self._parent(operation.location)}/operations/{operation.name}"
        try:
            return read_operation(self._read("get_operation", {"name": name}, attempt))
        except CloudError as error:
            if error.reason != "NOT_FOUND":
                raise
            return None

    def read(self, send: Callable[[], T], attempt: CloudCall) -> T:
        """Send a request that changes nothing; retry after transient failures."""
        with waiting_for(attempt.waiting):
            return retry(
                lambda: self._try(send, attempt, call_within),
                CloudError,
                lambda failure: failure.passing and self._get_left(attempt) > 0,
                self._sleep,
            )

    def change(self, send: Callable[[], T], attempt: CloudCall) -> T:
        """Send a change once; it may have happened even if no answer came."""
        with waiting_for(attempt.waiting):
            return self._try(send, attempt, lambda _, send: send())

    def _try(
        self,
        send: Callable[[], T],
        attempt: CloudCall,
        call: Callable[[float, Callable[[], T]], T],
    ) -> T:
        seconds, started = self._get_left(attempt), time.monotonic()
        if not seconds:
            raise CloudError(f"{attempt.words}: Google does not answer", REACH, "UNAVAILABLE")

        def send_with_token() -> T:
            # Google's libraries would renew it too, but wait for minutes. A service account signs
            # its own.
            own = isinstance(self.credentials, service_account.Credentials)
            if not own and not self.credentials.valid:
                refresh(self.credentials)
            return send()

        try:
            answer = call(seconds, send_with_token)
        except CATCHABLE as error:
            failure = translate_error(error, attempt)
            if failure.passing:
                self._patience.note_silence(attempt.api, time.monotonic() - started)
            raise failure from error
        self._patience.note_answer(attempt.api)
        return answer

    def _get_left(self, attempt: CloudCall) -> float:
        return self._patience.get_left(attempt.api)

    def _read(self, method: str, request: Mapping[str, Any], attempt: CloudCall) -> Any:
        timeout = self._timeouts_seconds[0]
        call = getattr(self._client, method)
        return self.read(lambda: call(request=request, retry=None, timeout=timeout), attempt)

    def _change(
        self, method: str, request: Mapping[str, Any], attempt: CloudCall
    ) -> CloudOperation:
        timeout = self._timeouts_seconds[1]
        call = getattr(self._client, method)
        return read_operation(
            self.change(lambda: call(request=request, retry=None, timeout=timeout), attempt)
        )

    def _delete(self, method: str, name: str, attempt: CloudCall) -> CloudOperation | None:
        try:
            return self._change(method, {"name": name}, attempt)
        except CloudError as error:
            if isinstance(error.__cause__, exceptions.NotFound):
                return None
            raise

    def _parent(self, location: str) -> str:
        return f"projects/{self.project}/locations/{location}"

    def _name(self, location: str, cluster: str) -> str:
        return f"{self._parent(location)}/clusters/{cluster}"

    @cached_property
    def _client(self) -> container_v1.ClusterManagerClient:
        address = self._endpoint.removeprefix("https://").rstrip("/")
        connect: Any = _open_channel
        transport = ClusterManagerGrpcTransport(
            host=address or ClusterManagerGrpcTransport.DEFAULT_HOST,
            credentials=self.credentials,
            channel=connect,
        )
        return container_v1.ClusterManagerClient(transport=transport)


def _open_channel(*where: Any, options: Sequence[tuple[str, Any]] = (), **how: Any) -> Any:
    limit = ("grpc.min_reconnect_backoff_ms", int(CONNECT_SECONDS * 1000))
    return ClusterManagerGrpcTransport.create_channel(*where, options=[*options, limit], **how)
