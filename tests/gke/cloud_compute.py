"""Google's token endpoints and REST interfaces, as far as the product uses them.

Those of Compute Engine, of IAM, and the one call of GKE's that the timer in a cluster sends.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.gke.cloud_disks import Compute
from tests.gke.cloud_faults import Code, Fault, not_found, unauthenticated
from tests.gke.cloud_gate import Call, Gate
from tests.gke.cloud_state import Flight

# HTTP's number, Google's word and the older short reason of each code that is answered.
HTTP = {
    Code.INVALID_ARGUMENT: (400, "invalid"),
    Code.FAILED_PRECONDITION: (400, "failedPrecondition"),
    Code.UNAUTHENTICATED: (401, "authError"),
    Code.PERMISSION_DENIED: (403, "forbidden"),
    Code.NOT_FOUND: (404, "notFound"),
    Code.ALREADY_EXISTS: (409, "alreadyExists"),
    Code.RESOURCE_EXHAUSTED: (429, "rateLimitExceeded"),
    Code.INTERNAL: (500, "backendError"),
    Code.UNAVAILABLE: (503, "backendError"),
    Code.DEADLINE_EXCEEDED: (504, "deadlineExceeded"),
}
ROUTE = re.compile(
    r"/compute/v1/projects/(?P<project>[^/]+)/(?P<scope>aggregated|zones/[^/]+|regions/[^/]+)/"
    r"(?P<kind>disks|forwardingRules|targetPools|operations)(/(?P<name>[^/]+))?"
    r"(?P<action>/wait|/setLabels)?"
)
POLICY = re.compile(r"/v1/projects/(?P<project>[^/:]+)(:getIamPolicy|/roles/\w+)|/v1/roles/[\w.]+")
CLUSTER = re.compile(r"/v1/(?P<cluster>projects/[^/]+/locations/[^/]+/clusters/[^/]+)")
METADATA = "/computeMetadata/v1/instance/service-accounts/default/token"  # as pods reach it
QUOTAS = re.compile(r"/compute/v1/projects/(?P<project>[^/]+)(/regions/(?P<region>[^/]+))?")
CATALOGUE = re.compile(
    r"/compute/v1/projects/(?P<project>[^/]+)/aggregated/(?P<kind>machineTypes|acceleratorTypes)"
)


class Front(ThreadingHTTPServer):
    """The HTTP server with what its requests need."""

    daemon_threads = True

    def __init__(
        self,
        gate: Gate,
        compute: Compute,
        authorised: Callable[[str], bool],
        hand_out: Callable[[str], Mapping[str, Any]],
        delete_cluster: Callable[[str, Fault | None], object],
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.gate, self.compute = gate, compute
        self.email = ""  # what it says of any token
        self.authorised, self.hand_out = authorised, hand_out
        self.delete_cluster = delete_cluster
        self.token: Callable[[], str] = str

    @property
    def url(self) -> str:
        """Return its address."""
        return f"http://localhost:{self.server_address[1]}"


def serve_compute(front: Front) -> None:
    """Serve in a thread until `shutdown`."""
    threading.Thread(target=front.serve_forever, args=(0.02,), daemon=True).start()


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Front

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_HEAD(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def date_time_string(self, timestamp: float | None = None) -> str:
        """Return the cloud's clock, for the header Date."""
        now = time.time() - self.server.compute.estate.behind_seconds
        return super().date_time_string(timestamp or now)

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def log_message(self, *_: Any) -> None:
        """Keep quiet; the calls are logged by the gate."""

    def _answer(self, verb: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        url = urlsplit(self.path)
        try:
            if url.path == "/token":
                content = self._hand_out(body)
            elif url.path == METADATA:
                content = {"access_token": self.server.token()}
            elif url.path == "/tokeninfo":
                content = self._name_account()
            else:
                query = {**parse_qs(url.query), "body": [body]}
                content = self._compute(verb, url.path, query)
            self._send(200, content)
        except Fault as fault:
            self._send(HTTP[fault.code][0], _describe(fault))

    def _hand_out(self, body: str) -> Mapping[str, Any]:
        fault = self.server.gate.strike(Call("Token", self.path))
        if fault is not None:
            self.server.gate.refuse(fault)
        return self.server.hand_out(parse_qs(body).get("assertion", [""])[0])

    def _name_account(self) -> Mapping[str, Any]:
        """Say whose a token is; that takes no part in the calls that a test counts."""
        fault = self.server.gate.strike(Call("TokenInfo", self.path))
        if fault is not None:
            self.server.gate.refuse(fault)
        return {"email": self.server.email} if self.server.email else {}

    def _compute(self, verb: str, path: str, query: Mapping[str, list[str]]) -> Mapping[str, Any]:
        if not self.server.authorised(self.headers.get("Authorization", "")):
            raise unauthenticated()
        if (found := CATALOGUE.fullmatch(path)) or (found := QUOTAS.fullmatch(path)):
            return self._offer(found, path, query)
        if POLICY.fullmatch(path):
            return self._show_policy(path.removeprefix("/v1/"))
        if found := CLUSTER.fullmatch(path):
            return self._delete_cluster(found["cluster"])
        route = ROUTE.fullmatch(path)
        if route is None:
            raise not_found(path)
        method = _name_method(verb, route)
        call = Call(f"{route['kind']}.{method}", path.removeprefix("/compute/v1/"))
        port = self.client_address[1]
        compute = self.server.compute
        if method == "wait":
            _wait(compute.find_flight(route))
        return self.server.gate.enter(
            call, port, lambda fault: compute.answer(method, route, query, fault)
        )

    def _show_policy(self, path: str) -> Mapping[str, Any]:
        """Answer the project's policy, or what a role permits."""
        estate = self.server.compute.estate
        role = path if "roles/" in path else ""

        def answer(_: Fault | None) -> Mapping[str, Any]:
            if role and role not in estate.roles:
                raise not_found(role)
            permissions = list(estate.roles.get(role, ()))
            return {"includedPermissions": permissions} if role else {"bindings": estate.bindings}

        call = Call("roles.get" if role else "policy.get", path)
        return self.server.gate.enter(call, self.client_address[1], answer)

    def _delete_cluster(self, path: str) -> Mapping[str, Any]:
        def answer(fault: Fault | None) -> Mapping[str, Any]:
            self.server.delete_cluster(path, fault)
            return {}

        call = Call("DeleteCluster", path)
        return self.server.gate.enter(call, self.client_address[1], answer)

    def _offer(
        self, found: re.Match[str], path: str, query: Mapping[str, list[str]]
    ) -> Mapping[str, Any]:
        """Answer what is there to be had: quotas, machine types, accelerators."""
        offers, named = self.server.compute.estate.offers, found.groupdict()
        if "kind" in named:
            name, wanted = f"{named['kind']}.aggregatedList", query.get("filter", [""])[0]
        else:
            name = "regions.get" if named["region"] else "projects.get"
        call = Call(name, path.removeprefix("/compute/v1/"))

        def answer(_: Fault | None) -> Mapping[str, Any]:
            if "kind" in named:
                return offers.list_places(named["kind"], wanted)
            return offers.list_quotas(named["region"] or "")

        return self.server.gate.enter(call, self.client_address[1], answer)

    def _send(self, status: int, content: Mapping[str, Any]) -> None:
        encoded = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=UTF-8")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)


def _wait(flight: Flight) -> None:
    """Answer only when an operation is over, as Compute Engine does for up to two minutes."""
    time.sleep(max(flight.ends - time.monotonic(), 0))


def _name_method(verb: str, route: re.Match[str]) -> str:
    if route["scope"] == "aggregated":
        return "aggregatedList"
    if verb == "DELETE":
        return "delete"
    if route["action"]:
        return route["action"].removeprefix("/")
    return "get" if route["name"] else "list"


def _describe(fault: Fault) -> Mapping[str, Any]:
    """Return a fault as Compute Engine's JSON, or as the token endpoint's where it is a grant's."""
    if fault.reason == "invalid_grant":
        return {"error": "invalid_grant", "error_description": fault.message}
    status, reason = HTTP[fault.code]
    old = fault.reason[:1].islower()
    short = "accessNotConfigured" if fault.reason == "SERVICE_DISABLED" else reason
    short = fault.reason if old else short
    error: dict[str, Any] = {
        "code": status,
        "message": fault.message,
        "errors": [{"message": fault.message, "domain": "global", "reason": short}],
        "status": fault.code.name,
    }
    if fault.reason and not old:
        info = {"reason": fault.reason, "domain": fault.domain, "metadata": dict(fault.metadata)}
        error["details"] = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", **info}]
    return {"error": error}
