"""Access to the Kubernetes of a GKE cluster: for us, and for the user's own kubectl."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from deployer.errors import CloudError, ConfigError, KubeError
from deployer.gke.api.client import Gke
from deployer.gke.api.model import CloudCluster
from deployer.kube.access import build_access
from deployer.kube.client import Kube
from deployer.transience import NO_ANSWER

PLUGIN = "gke-gcloud-auth-plugin"
INSTALL_HINT = (
    f"Install {PLUGIN} for use with kubectl by following https://cloud.google.com/kubernetes-engine/"
    "docs/how-to/cluster-access-for-kubectl#install_plugin"
)
Entry = dict[str, Any]


def open_kube_of(
    gke: Gke,
    cluster: CloudCluster,
    namespace: str | None,
    sleep: Callable[[float], None] = time.sleep,
) -> Kube:
    """Return a client of a cluster's Kubernetes, with Google's token, renewed when needed.

    `sleep` waits before a request is sent again. Contacts nothing. Raises CloudError if the cluster
    has no address yet, or none any more.
    """
    if not cluster.endpoint or not cluster.ca_certificate:
        raise CloudError(
            f"{cluster.words} is {cluster.status}: its Kubernetes has no address",
            "deployer gke up goes on with it",
            cluster.status,
        )
    access = build_access(
        f"https://{cluster.endpoint}",
        cluster.ca_certificate,
        lambda: _get_token(gke),
        namespace or "default",
        name_context(gke.project, cluster),
    )
    return Kube(access, sleep=sleep, owner=gke.owner_name)


def _get_token(gke: Gke) -> str:
    """Return a token; a failure that passes is Kubernetes' own, for which a watcher waits."""
    try:
        return gke.get_token()
    except CloudError as error:
        if not error.passing:
            raise
        raise KubeError(error.message, error.hint, status=NO_ANSWER) from error


def name_context(project: str, cluster: CloudCluster) -> str:
    """Return the context's name as gcloud gives it, so that one cluster has one entry."""
    return f"gke_{project}_{cluster.location}_{cluster.name}"


def find_kubeconfig(environment: Mapping[str, str]) -> Path:
    """Return the file that kubectl would write to: the first of KUBECONFIG, else ~/.kube/config."""
    named = next((part for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part), "")
    return Path(named or "~/.kube/config").expanduser()


def write_kubeconfig(cluster: CloudCluster, project: str, path: Path) -> str:
    """Add a cluster to a kubeconfig and make it the current context; other entries stay.

    The user's kubectl gets its tokens from Google's plugin, so no secret is written. The file is
    replaced at once and readable by its owner alone. Returns the context's name. Raises
    ConfigError for a file that cannot be used.
    """
    name = name_context(project, cluster)
    content = _load(path)
    _set(content, "clusters", name, {"cluster": _build_cluster(cluster)})
    _set(content, "users", name, {"user": {"exec": _build_exec()}})
    _set(content, "contexts", name, {"context": {"cluster": name, "user": name}})
    content["current-context"] = name
    _write(path, yaml.safe_dump(content, sort_keys=False))
    return name


def _load(path: Path) -> Entry:
    try:
        content = yaml.safe_load(path.read_text()) if path.exists() else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(str(path), f"cannot be read: {error}", "mend or move the file") from error
    content = {} if content is None else content
    if not isinstance(content, dict):
        raise ConfigError(str(path), "is no kubeconfig", "mend or move the file")
    return {"apiVersion": "v1", "kind": "Config", **content}


def _set(content: Entry, section: str, name: str, entry: Entry) -> None:
    """Put an entry in the place of the one with its name, else at the end."""
    entries = [dict(one) for one in content.get(section) or ()]
    new = {"name": name, **entry}
    places = [place for place, one in enumerate(entries) if one.get("name") == name]
    if places and section == "contexts":  # the namespace that the user chose stays
        new["context"] = {**(entries[places[0]].get("context") or {}), **entry["context"]}
    for place in places[:1]:
        entries[place] = new
    content[section] = entries if places else [*entries, new]


def _build_cluster(cluster: CloudCluster) -> Entry:
    encoded = base64.b64encode(cluster.ca_certificate).decode()
    return {"server": f"https://{cluster.endpoint}", "certificate-authority-data": encoded}


def _build_exec() -> Entry:
    return {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": PLUGIN,
        # Else it asks gcloud, which knows nothing of application default credentials.
        "args": ["--use_application_default_credentials"],
        "installHint": INSTALL_HINT,
        "provideClusterInfo": True,
    }


def _write(path: Path, text: str) -> None:
    target = path.resolve()  # a link stays a link
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        with open(os.open(partial, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        partial.replace(target)
    except OSError as error:
        hint = "KUBECONFIG=FILE names another"
        raise ConfigError(str(path), f"cannot be written: {error.strerror}", hint) from error
