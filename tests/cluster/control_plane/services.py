"""Services and cluster DNS for the pods of a real node: kube-proxy and CoreDNS in its network.

kube-proxy's nftables rules live in the node's network namespace and go with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster.control_plane.folder import Folder
from tests.cluster.control_plane.node import Node
from tests.cluster.control_plane.packages import library_path
from tests.cluster.control_plane.pki import Pki
from tests.cluster.control_plane.servers import answers

HEALTH_PORT, READY_PORT = 10256, 8181  # on the node's own address


def start_services(
    folder: Folder, node: Node, programs: Mapping[str, Path], runtime: Path, pki: Pki, server: str
) -> None:
    """Start both as the processes `NAME-proxy` and `NAME-dns`, and wait until they are ready."""
    user = node.folder / "services.kubeconfig"
    pki.write_kubeconfig(user, server, "system:kube-proxy", "system:masters")
    settings = node.folder / "kube-proxy.json"
    settings.write_text(json.dumps(build_proxy_settings(node, user), indent=1))
    search = f"{runtime}/usr/sbin:{os.environ['PATH']}"
    folder.set_process(
        f"{node.name}-proxy",
        [*node.inside, programs["kube-proxy"], f"--config={settings}"],
        {"PATH": search, **library_path(runtime)},
    )
    corefile = node.folder / "Corefile"
    corefile.write_text(build_corefile(node, user))
    folder.set_process(f"{node.name}-dns", [*node.inside, programs["coredns"], "-conf", corefile])
    health = f"http://{node.link.node}:{HEALTH_PORT}/healthz"
    folder.wait_for("kube-proxy", lambda: answers(health), f"{node.name}-proxy")
    ready = f"http://{node.link.node}:{READY_PORT}/ready"
    folder.wait_for("cluster DNS", lambda: answers(ready), f"{node.name}-dns")


def build_proxy_settings(node: Node, kubeconfig: Path) -> dict[str, Any]:
    """Return a KubeProxyConfiguration that leaves the machine's connection tracking as it is."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": node.name,
        "bindAddress": node.link.node,
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "detectLocalMode": "InterfaceNamePrefix",
        "detectLocal": {"interfaceNamePrefix": "veth"},
        "healthzBindAddress": f"{node.link.node}:{HEALTH_PORT}",
        "metricsBindAddress": f"{node.link.node}:10249",
        "oomScoreAdj": 0,
        "nftables": {"minSyncPeriod": "10ms"},  # 0 means 1 s: so late would new endpoints be
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }


def build_corefile(node: Node, kubeconfig: Path) -> str:
    """Return CoreDNS's configuration: names of the cluster, and a clear no to all others."""
    listen = f"bind {node.link.node}\n errors"
    return f"""
cluster.local:53 in-addr.arpa:53 {{
 {listen}
 ready {node.link.node}:{READY_PORT}
 kubernetes {{
  kubeconfig {kubeconfig}
  ttl 1
 }}
}}
.:53 {{
 {listen}
 template ANY ANY {{
  rcode NXDOMAIN
 }}
}}
"""


def build_api_endpoint(server: str) -> dict[str, Any]:
    """Return the EndpointSlice behind kubernetes.default.svc; the API server keeps none."""
    address, port = server.removeprefix("https://").rsplit(":", 1)
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "addressType": "IPv4",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "ports": [{"name": "https", "port": int(port)}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }
