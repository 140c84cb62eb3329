"""Deletes the cluster that it runs in once nobody uses it; a CronJob runs it every few minutes.

Nothing but the standard library: it is alone in its container. While there is a volume or a load
balancer it deletes nothing: results may lie on the one, and both would outlive the cluster.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

Objects = Mapping[str, Sequence[Mapping[str, Any]]]

LISTS = {
    "pods": "/api/v1/pods",
    "jobs": "/apis/batch/v1/jobs",
    "claims": "/api/v1/persistentvolumeclaims",
    "services": "/api/v1/services",
}
OWN = "deployer-timer"
SYSTEM = ("kube-", "gke-managed-", "gmp-")  # namespaces that begin so are GKE's
STATE = f"/api/v1/namespaces/{OWN}/configmaps/idle-timer-state"
USED_AT = "used_at"  # in seconds since the epoch
SECRETS = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN = "/computeMetadata/v1/instance/service-accounts/default/token"
TIMEOUT_SECONDS = 30.0
GONE, BUSY = 404, (400, 409)


def find_use(objects: Objects) -> str:
    """Return what keeps the cluster, in words; empty if nothing does."""
    for one in objects["claims"]:
        return f"{_name('claim', one)} holds data"
    for one in objects["services"]:
        if one["spec"].get("type") == "LoadBalancer":
            return f"{_name('service', one)} has a load balancer"
    for one in _list_others(objects["pods"]):
        if one["status"].get("phase") not in ("Succeeded", "Failed"):
            return f"{_name('pod', one)} is {one['status'].get('phase')}"
    for one in _list_others(objects["jobs"]):
        if not any(_ends(one)):
            return f"{_name('job', one)} is not finished"
    return ""


def find_last_end(objects: Objects) -> float:
    """Return when a Job or a pod ended last, in seconds since the epoch; 0 if none is left."""
    there = [*_list_others(objects["jobs"]), *_list_others(objects["pods"])]
    return max((end for one in there for end in _ends(one)), default=0.0)


def _list_others(objects: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return what is neither GKE's nor the timer's own."""
    return [one for one in objects if not _is_system(one)]


def _is_system(one: Mapping[str, Any]) -> bool:
    namespace = str(one["metadata"]["namespace"])
    return namespace == OWN or namespace.startswith(SYSTEM)


def _name(kind: str, one: Mapping[str, Any]) -> str:
    return f"{kind} {one['metadata']['namespace']}/{one['metadata']['name']}"


def _ends(one: Mapping[str, Any]) -> Iterator[float]:
    """Yield when a Job or the containers of a pod ended; nothing for a Job that goes on."""
    status = one["status"]
    for condition in status.get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            yield _read_time(condition["lastTransitionTime"])
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("finishedAt"):
            yield _read_time(ended["finishedAt"])


def _read_time(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def main(environment: Mapping[str, str], secrets: Path, now: float) -> int:
    """Look once, and delete the cluster if nothing keeps it; return the exit code.

    Agents that were dismissed leave no trace, so the last time of use is written down.
    """
    kubernetes = Kubernetes(environment, secrets)
    objects = {kind: kubernetes.ask("GET", path)["items"] for kind, path in LISTS.items()}
    if use := find_use(objects):
        kubernetes.ask("PATCH", STATE, {"data": {USED_AT: f"{now:.0f}"}})
        _log(f"the cluster stays: {use}")
        return 0
    seen = float((kubernetes.ask("GET", STATE).get("data") or {}).get(USED_AT, 0))
    limit, since = float(environment["IDLE_SECONDS"]), float(environment["SINCE"])
    idle = now - max(since, seen, find_last_end(objects))
    if idle < limit:
        _log(f"the cluster stays: idle for {idle:.0f} s of {limit:.0f}")
        return 0
    return _delete(environment)


class Kubernetes:
    """The API server of the cluster, with the pod's own account."""

    def __init__(self, environment: Mapping[str, str], secrets: Path) -> None:
        host, port = (environment[f"KUBERNETES_SERVICE_{part}"] for part in ("HOST", "PORT"))
        self._url = environment.get("KUBERNETES_URL") or f"https://{host}:{port}"
        self._token = (secrets / "token").read_text().strip()
        authority = secrets / "ca.crt"
        known = authority.exists()
        self._trust = ssl.create_default_context(cafile=str(authority)) if known else None

    def ask(self, method: str, path: str, change: Mapping[str, Any] | None = None) -> Any:
        """Return an answer; raises HTTPError."""
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=json.dumps(change).encode() if change else None,
            headers={
                "Authorization": f"Bearer {self._token}",
                "Content-Type": "application/merge-patch+json",
            },
        )
        with urllib.request.urlopen(
            request, timeout=TIMEOUT_SECONDS, context=self._trust
        ) as answer:
            return json.load(answer)


def _delete(environment: Mapping[str, str]) -> int:
    metadata = environment.get("GCE_METADATA_HOST", "metadata.google.internal")
    asked = urllib.request.Request(
        f"http://{metadata}{TOKEN}", headers={"Metadata-Flavor": "Google"}
    )
    with urllib.request.urlopen(asked, timeout=TIMEOUT_SECONDS) as answer:
        token = json.load(answer)["access_token"]
    google = environment.get("CONTAINER_URL", "https://container.googleapis.com")
    address = f"{google}/v1/{environment['CLUSTER']}"
    headers = {"Authorization": f"Bearer {token}"}
    try:
        request = urllib.request.Request(address, method="DELETE", headers=headers)
        urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS).close()
    except urllib.error.HTTPError as error:
        said = f"Google answers {error.code}: {' '.join(error.read().decode().split())}"
        _log(f"the cluster is not deleted: {said}")
        return 0 if error.code in (GONE, *BUSY) else 1
    _log("the cluster is idle and is being deleted")
    return 0


def _log(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(os.environ, SECRETS, time.time()))
