"""The control plane: etcd, API server, controller manager and scheduler as processes."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from tests.cluster.control_plane.folder import Folder, free_ports
from tests.cluster.control_plane.network import SERVICES
from tests.cluster.control_plane.pki import Pki

# The stock 20 requests a second make 300 Jobs take 34 s until their pods run, instead of 5 s.
RATES = ("--kube-api-qps=1000", "--kube-api-burst=2000")
# A lost node is noticed after 12 s instead of 6 minutes.
SHORT_TOLERATIONS = (
    "--default-not-ready-toleration-seconds=2",
    "--default-unreachable-toleration-seconds=2",
)
SHORT_GRACE = ("--node-monitor-grace-period=6s", "--node-monitor-period=1s")
# What clients send, word for word, and what they ask; the cluster's own traffic is left out.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "userGroups": ["system:nodes", "system:serviceaccounts"]},
        {
            "level": "None",
            "users": [
                "system:kube-controller-manager",
                "system:kube-scheduler",
                "system:apiserver",
                "system:kwok",
                "system:kube-proxy",
                "system:coredns",
            ],
        },
        {"level": "Metadata", "resources": [{"group": "", "resources": ["secrets"]}]},
        {"level": "Metadata", "verbs": ["get", "list", "watch"]},
        {"level": "Request"},
    ],
}


def start_servers(
    folder: Folder, programs: Mapping[str, Path], pki: Pki, address: str, short_timeouts: bool
) -> str:
    """Start all four at once (they wait for each other) and return the API server's URL."""
    client_port, peer_port, api_port = free_ports(3)
    etcd = f"http://127.0.0.1:{client_port}"
    server = f"https://{address}:{api_port}"
    _start_etcd(folder, programs["etcd"], etcd, f"http://127.0.0.1:{peer_port}")
    _start_api_server(
        folder, programs["kube-apiserver"], pki, etcd, (address, api_port), short_timeouts
    )
    manager = folder.path / "controller-manager.kubeconfig"
    pki.write_kubeconfig(manager, server, "system:kube-controller-manager")
    folder.set_process(
        "controller-manager",
        [
            programs["kube-controller-manager"],
            f"--kubeconfig={manager}",
            f"--service-account-private-key-file={pki.folder}/service-accounts.key",
            f"--root-ca-file={pki.authority_file}",
            "--use-service-account-credentials",
            "--pvclaimbinder-sync-period=1s",  # or a static volume is bound after up to 15 s
            f"--flex-volume-plugin-dir={folder.path}/flexvolume",  # or one under /usr/libexec
            "--leader-elect=false",
            "--secure-port=0",  # serve nothing, so no port to choose
            *RATES,
            *(SHORT_GRACE if short_timeouts else ()),
        ],
    )
    scheduler = folder.path / "scheduler.kubeconfig"
    pki.write_kubeconfig(scheduler, server, "system:kube-scheduler")
    folder.set_process(
        "scheduler",
        [
            programs["kube-scheduler"],
            f"--kubeconfig={scheduler}",
            "--leader-elect=false",
            "--secure-port=0",
            *RATES,
        ],
    )
    return server


def wait_for_servers(folder: Folder, pki: Pki, server: str) -> None:
    """Wait until the default service account exists: before that, pods are refused."""
    pki.issue("probe", "probe", "system:masters")
    tls = ssl.create_default_context(cafile=str(pki.authority_file))
    tls.load_cert_chain(pki.folder / "probe.crt", pki.folder / "probe.key")
    account = f"{server}/api/v1/namespaces/default/serviceaccounts/default"
    folder.wait_for("API server", lambda: answers(f"{server}/readyz", tls), "apiserver")
    folder.wait_for("controller manager", lambda: answers(account, tls), "controller-manager")


def answers(url: str, tls: ssl.SSLContext | None = None) -> bool:
    """Tell whether a URL answers 200."""
    try:
        with urllib.request.urlopen(url, context=tls, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _start_etcd(folder: Folder, program: Path, client: str, peer: str) -> None:
    folder.set_process(
        "etcd",
        [
            program,
            f"--data-dir={folder.path}/etcd",
            "--unsafe-no-fsync",  # nobody needs the data after a power cut
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
        ],
    )


def _start_api_server(
    folder: Folder,
    program: Path,
    pki: Pki,
    etcd: str,
    listen: tuple[str, int],
    short_timeouts: bool,
) -> None:
    policy = folder.path / "audit-policy.json"
    policy.write_text(json.dumps(AUDIT_POLICY))
    folder.set_process(
        "apiserver",
        [
            program,
            f"--etcd-servers={etcd}",
            f"--bind-address={listen[0]}",
            f"--secure-port={listen[1]}",
            f"--tls-cert-file={pki.folder}/apiserver.crt",
            f"--tls-private-key-file={pki.folder}/apiserver.key",
            f"--client-ca-file={pki.authority_file}",
            f"--service-account-key-file={pki.folder}/service-accounts.key",
            f"--service-account-signing-key-file={pki.folder}/service-accounts.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-cluster-ip-range={SERVICES}",
            "--authorization-mode=Node,RBAC",
            # As on GKE: a pod that asks for a GPU tolerates the taint of GPU nodes.
            "--enable-admission-plugins=NodeRestriction,ExtendedResourceToleration",
            "--allow-privileged=true",
            "--endpoint-reconciler-type=none",
            f"--kubelet-client-certificate={pki.folder}/kubelet-client.crt",
            f"--kubelet-client-key={pki.folder}/kubelet-client.key",
            "--kubelet-preferred-address-types=InternalIP",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={folder.path}/log/audit.jsonl",
            *(SHORT_TOLERATIONS if short_timeouts else ()),
        ],
    )
