"""Deletes its own cluster once it is idle; a CronJob runs it every few minutes.

Uses only the standard library, because it is alone in its container. It never deletes a disk: disks
with results are kept and labelled first. Another claim or a load balancer keeps the cluster.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

Objects = Mapping[str, Sequence[Mapping[str, Any]]]

LISTS = {
    "pods": "/api/v1/pods",
    "jobs": "/apis/batch/v1/jobs",
    "claims": "/api/v1/persistentvolumeclaims",
    "services": "/api/v1/services",
    "volumes": "/api/v1/persistentvolumes",
}
OWN = "deployer-timer"
SYSTEM = ("gke-", "gmp-")  # prefixes of GKE's namespaces
BACKEND = {"app.kubernetes.io/managed-by": "deployer", "app.kubernetes.io/component": "backend"}
OWNER_LABEL = "deployer.dev/owner"
# Labels of a disk with a backend's results: gke/api/compute.py.
HOLDS_RESULTS = {"deployer-holds": "results"}
NAMESPACE_LABEL = "deployer-namespace"
DISK_DRIVER = "pd.csi.storage.gke.io"
DISK = re.compile(r"projects/[^/]+/(zones|regions)/[^/]+/disks/[^/]+")
STATE = f"/api/v1/namespaces/{OWN}/configmaps/idle-timer-state"
USED_AT = "used_at"  # in seconds since the epoch
SECRETS = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN = "/computeMetadata/v1/instance/service-accounts/default/token"
TIMEOUT_SECONDS = 30.0
GONE, BUSY = 404, (400, 409)


def find_use(objects: Objects, owner: str) -> str:
    """Return why the cluster is in use, as text; empty if it is idle.

    The owner's backend and its results do not count: the disk outlives the cluster.
    """
    for one in objects["claims"]:
        if not _is_backend(one, owner):
            return f"{_name('claim', one)} holds data"
    for one in objects["services"]:
        if one["spec"].get("type") == "LoadBalancer":
            return f"{_name('service', one)} has a load balancer"
    for one in _list_others(objects["pods"]):
        ended = one["status"].get("phase") in ("Succeeded", "Failed")
        if not ended and not _is_backend(one, owner):
            return f"{_name('pod', one)} is {one['status'].get('phase')}"
    for one in _list_others(objects["jobs"]):
        if not any(_ends(one)):
            return f"{_name('job', one)} is not finished"
    return ""


def find_last_end(objects: Objects) -> float:
    """Return when the last Job or pod ended, in seconds since the epoch; 0 if none is left."""
    there = [*_list_others(objects["jobs"]), *_list_others(objects["pods"])]
    return max((end for one in there for end in _ends(one)), default=0.0)


def _list_others(objects: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [one for one in objects if not _is_system(one)]


def _is_system(one: Mapping[str, Any]) -> bool:
    namespace = str(one["metadata"]["namespace"])
    return namespace in (OWN, "kube-system") or namespace.startswith(SYSTEM)


def _is_backend(one: Mapping[str, Any], owner: str) -> bool:
    labels = one["metadata"].get("labels") or {}
    return {**BACKEND, OWNER_LABEL: owner}.items() <= labels.items()


def _name(kind: str, one: Mapping[str, Any]) -> str:
    return f"{kind} {one['metadata']['namespace']}/{one['metadata']['name']}"


def _ends(one: Mapping[str, Any]) -> Iterator[float]:
    """Yield when a Job or the containers of a pod ended; nothing for a running Job."""
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
    """Check once, and delete the cluster if it is idle; return the exit code.

    Drained agents leave no trace, so the last time of use is stored.
    """
    kubernetes = Kubernetes(environment, secrets)
    objects = {kind: kubernetes.ask("GET", path)["items"] for kind, path in LISTS.items()}
    if use := find_use(objects, environment["OWNER"]):
        kubernetes.ask("PATCH", STATE, {"data": {USED_AT: f"{now:.0f}"}})
        _log(f"the cluster stays: {use}")
        return 0
    seen = float((kubernetes.ask("GET", STATE).get("data") or {}).get(USED_AT, 0))
    limit, since = float(environment["IDLE_SECONDS"]), float(environment["SINCE"])
    idle = now - max(since, seen, find_last_end(objects))
    if idle < limit:
        _log(f"the cluster stays: idle for {idle:.0f} s of {limit:.0f}")
        return 0
    google = Google(environment)
    try:
        if undone := keep_results(kubernetes, google, objects, json.loads(environment["LABELS"])):
            _log(f"the cluster stays: {undone}")
            return 0
        google.delete_cluster()
    except OSError as error:
        _log(f"the cluster is not deleted: {_explain(error)}")
        code = getattr(error, "code", 0)
        return 0 if code in (GONE, *BUSY) else 1
    _log("the cluster is idle and is being deleted")
    return 0


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
        kind = {"Content-Type": "application/merge-patch+json"}
        return _ask(method, self._url + path, self._token, change, kind, self._trust)


class Google:
    """The APIs of Google Cloud, with the token of the pod's own account."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        metadata = environment.get("GCE_METADATA_HOST", "metadata.google.internal")
        self._metadata = f"http://{metadata}{TOKEN}"
        self._container = environment.get("CONTAINER_URL", "https://container.googleapis.com")
        self._compute = environment.get("COMPUTE_URL", "https://compute.googleapis.com")
        self._cluster = environment["CLUSTER"]

    def delete_cluster(self) -> None:
        """Request the deletion of the timer's own cluster; raises OSError."""
        self._send("DELETE", f"{self._container}/v1/{self._cluster}")

    def label_disk(self, disk: str, labels: Mapping[str, str]) -> bool:
        """Request labels for a disk; return False if it has them already. Raises OSError."""
        address = f"{self._compute}/compute/v1/{disk}"
        found = self._send("GET", address)
        known = found.get("labels") or {}
        if labels.items() <= known.items():
            return False
        change = {"labels": {**known, **labels}, "labelFingerprint": found["labelFingerprint"]}
        self._send("POST", f"{address}/setLabels", change)
        return True

    @cached_property
    def _token(self) -> str:
        asked = urllib.request.Request(self._metadata, headers={"Metadata-Flavor": "Google"})
        with urllib.request.urlopen(asked, timeout=TIMEOUT_SECONDS) as answer:
            return str(json.load(answer)["access_token"])

    def _send(self, method: str, address: str, change: Mapping[str, Any] | None = None) -> Any:
        kind = {"Content-Type": "application/json"}
        return _ask(method, address, self._token, change, kind, None)


def keep_results(
    kubernetes: Kubernetes, google: Google, objects: Objects, labels: Mapping[str, str]
) -> str:
    """Keep the backends' disks after the cluster; return why the cluster must stay, as text.

    Labels count once a later run has read them back. Raises OSError.
    """
    undone = ""
    volumes = {one["metadata"]["name"]: one for one in objects["volumes"]}
    for claim in objects["claims"]:
        name = claim["spec"].get("volumeName")
        if not name:
            continue  # nothing has ever been written
        spec = volumes.get(name, {}).get("spec") or {}
        source = spec.get("csi") or {}
        disk = str(source.get("volumeHandle"))
        if source.get("driver") != DISK_DRIVER or not DISK.fullmatch(disk):
            return f"{_name('claim', claim)} holds results, but not on a Compute Engine disk"
        if spec.get("persistentVolumeReclaimPolicy") != "Retain":
            # By these labels `--delete-data` still finds and deletes the disk.
            known = claim["metadata"]["labels"]
            own = {label: known[label] for label in (*BACKEND, OWNER_LABEL) if label in known}
            change = {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}
            kubernetes.ask(
                "PATCH", f"{LISTS['volumes']}/{name}", {**change, "metadata": {"labels": own}}
            )
        wanted = {**labels, **HOLDS_RESULTS, NAMESPACE_LABEL: claim["metadata"]["namespace"]}
        if google.label_disk(disk, wanted):
            undone = f"the labels of {disk}, which holds results, are being written"
    return undone


def _ask(
    method: str,
    address: str,
    token: str,
    change: Mapping[str, Any] | None,
    headers: Mapping[str, str],
    trust: ssl.SSLContext | None,
) -> Any:
    request = urllib.request.Request(
        address,
        method=method,
        data=json.dumps(change).encode() if change else None,
        headers={"Authorization": f"Bearer {token}", **headers},
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=trust) as answer:
        return json.load(answer)


def _explain(error: OSError) -> str:
    if isinstance(error, urllib.error.HTTPError):
        said = " ".join(error.read().decode().split())
        return f"{error.url} answers {error.code}: {said}"
    return str(error)


def _log(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(os.environ, SECRETS, time.time()))
