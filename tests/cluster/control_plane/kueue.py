"""Kueue beside a cluster: its definitions, its webhooks by URL, its manager as a process.

The manifests are those of Kueue's own module, kept beside the program; what kustomize would patch
into them is patched here.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.cluster.control_plane.folder import free_ports
from tests.cluster.control_plane.servers import answers

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster

Manifest = dict[str, Any]
NAMESPACE = "kueue-system"
# The manager serves more webhooks than these; without an object of the kind they only cost time.
WEBHOOKS = {"job", "clusterqueue", "cohort", "localqueue", "resourceflavor", "workload"}
# Kueue wants a key pair here even where it serves no metrics. An /etc of its own gives it one.
METRICS = "/etc/kueue/metrics/certs"


def start_kueue(cluster: Cluster, pods_ready_seconds: float | None = None) -> None:
    """Install Kueue in a cluster and wait until it answers.

    `pods_ready_seconds`: after which a workload with a pending pod is evicted and queued again.
    """
    folder, program = cluster.folder, cluster.programs["kueue"]
    webhooks, health = free_ports(2)
    authority = cluster.pki.authority_file.read_bytes()
    client_config = {
        "url": f"https://127.0.0.1:{webhooks}",
        "caBundle": base64.b64encode(authority).decode(),
    }
    manifests = list(_build_manifests(program.parent / "config/components", client_config))
    applied = "\n---\n".join(json.dumps(one) for one in manifests)
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=applied)
    definitions = [one for one in manifests if one["kind"] == "CustomResourceDefinition"]
    for one in definitions:  # or the manager ends
        cluster.wait_for(f"crd/{one['metadata']['name']}", "condition=Established")

    certificates = folder.path / "kueue-certificates"
    certificates.mkdir()
    cluster.pki.issue("kueue", "kueue", names=("localhost", "127.0.0.1"))
    for suffix in ("crt", "key"):
        shutil.copy(cluster.pki.folder / f"kueue.{suffix}", certificates / f"tls.{suffix}")
    settings = folder.path / "kueue.json"
    settings.write_text(
        json.dumps(_build_settings(webhooks, health, certificates, pods_ready_seconds))
    )
    user = folder.path / "kueue.kubeconfig"
    cluster.pki.write_kubeconfig(user, cluster.server, "system:kueue", "system:masters")
    alone = (
        f'mount -t tmpfs none /etc; mkdir -p {METRICS}; cp "$0"/tls.* {METRICS}; exec "$@"',
        certificates,
    )
    folder.set_process(
        "kueue",
        [
            *("unshare", "--map-root-user", "--mount", "sh", "-ec", *alone),
            *(program, "--config", settings, "--kubeconfig", user),
        ],
    )
    folder.wait_for("Kueue", lambda: answers(f"http://127.0.0.1:{health}/readyz"), "kueue")


def build_queues(
    namespace: str, quota: Mapping[str, str], product: str = "", name: str = "user-queue"
) -> list[Manifest]:
    """Return a flavor, a ClusterQueue of this quota, and the namespace's queue NAMESPACE-NAME."""
    labels = {"nvidia.com/gpu.product": product} if product else {}
    resources = [{"name": key, "nominalQuota": amount} for key, amount in quota.items()]
    return [
        _build("ResourceFlavor", namespace, {"nodeLabels": labels}),
        _build(
            "ClusterQueue",
            namespace,
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "preemption": {"withinClusterQueue": "LowerPriority"},
                "resourceGroups": [
                    {
                        "coveredResources": list(quota),
                        "flavors": [{"name": namespace, "resources": resources}],
                    }
                ],
            },
        ),
        _build("LocalQueue", f"{namespace}-{name}", {"clusterQueue": namespace}, namespace),
    ]


def _build(kind: str, name: str, spec: Manifest, namespace: str = "") -> Manifest:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
    }


def _build_manifests(components: Path, client_config: Mapping[str, str]) -> Iterator[Manifest]:
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}

    def by_url(webhook: Manifest) -> None:
        path = webhook["clientConfig"]["service"]["path"]
        webhook["clientConfig"] = {**client_config, "url": f"{client_config['url']}{path}"}

    definitions = components / "crd"
    converted = {}
    for entry in yaml.safe_load((definitions / "kustomization.yaml").read_text())["patches"]:
        patch = yaml.safe_load((definitions / entry["path"]).read_text())
        by_url(patch["spec"]["conversion"]["webhook"])
        converted[patch["metadata"]["name"]] = patch["spec"]["conversion"]
    for file in sorted((definitions / "bases").glob("*.yaml")):
        definition = yaml.safe_load(file.read_text())
        if definition["metadata"]["name"] in converted:
            definition["spec"]["conversion"] = converted[definition["metadata"]["name"]]
        yield definition
    for hooks in yaml.safe_load_all((components / "webhook/manifests.yaml").read_text()):
        hooks["metadata"]["name"] = f"kueue-{hooks['metadata']['name']}"
        kept = [one for one in hooks["webhooks"] if one["name"].split(".")[0][1:] in WEBHOOKS]
        for webhook in kept:
            by_url(webhook)
        yield {**hooks, "webhooks": kept}


def _build_settings(
    webhooks: int, health: int, certificates: Path, pods_ready_seconds: float | None
) -> Manifest:
    settings: Manifest = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhooks, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        # Its API server would listen on every address.
        "featureGates": {"VisibilityOnDemand": False},
        "integrations": {"frameworks": ["batch/job"]},
        "clientConnection": {"qps": 300, "burst": 500},
    }
    if pods_ready_seconds is not None:
        timeout = f"{pods_ready_seconds}s"
        settings["waitForPodsReady"] = {
            "timeout": timeout,
            "recoveryTimeout": timeout,
            "blockAdmission": False,
            "requeuingStrategy": {"backoffBaseSeconds": 2, "backoffMaxSeconds": 4},
        }
    return settings
