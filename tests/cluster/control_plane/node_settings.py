"""What the container runtime, the pod network and the kubelet of a real node are told; pure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cluster.control_plane.network import Link

KUBELET_PORT = 10250  # on the node's own address, so it need not be chosen
PAUSE_IMAGE = "localhost/pause:dev"


def build_containerd_settings(node: Path, runtime: Path) -> str:
    """Return containerd 2's TOML; `base-spec.json` adds the shared folders to every container."""
    return f"""
version = 3
disabled_plugins = [
  "io.containerd.internal.v1.opt",   # makes /opt/containerd on the machine
  "io.containerd.nri.v1.nri",
]
root = "{node}/containerd"
state = "/run/containerd-state"
oom_score = 0
[grpc]
  address = "{node}/containerd.sock"
[plugins."io.containerd.cri.v1.images"]
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{PAUSE_IMAGE}"
  [plugins."io.containerd.cri.v1.images".registry]
    config_path = "{node}/registries"   # containerd reads it at every pull
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true      # works without CAP_SYS_RESOURCE, as in most containers
  disable_apparmor = true
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      base_runtime_spec = "{node}/base-spec.json"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        SystemdCgroup = false
        BinaryName = "{runtime}/usr/sbin/runc"
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{runtime}/usr/lib/cni"]
    conf_dir = "{node}/cni"
"""


def build_node_rights() -> dict[str, Any]:
    """Return a binding that lets nodes read anything.

    The Node authorizer alone learns of a new pod's ConfigMaps a moment too late, and the kubelet
    then waits for 10 s before it asks again.
    """
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "nodes"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "system:nodes"}],
    }


def build_pod_network(node: Path, link: Link) -> dict[str, Any]:
    """Return the CNI configuration: pods are routed, so kube-proxy sees both directions."""
    addresses = {
        "type": "host-local",
        "dataDir": f"{node}/ipam",
        "ranges": [[{"subnet": link.pods, "gateway": link.pod_gateway}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [{"type": "ptp", "ipMasq": False, "ipam": addresses}],
    }


def build_kubelet_settings(node: Path, authority: Path, cgroup: str, link: Link) -> dict[str, Any]:
    """Return a KubeletConfiguration that leaves the machine's own folders and settings alone."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": link.node,
        "port": KUBELET_PORT,
        "readOnlyPort": 0,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "clusterDNS": [link.node],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": f"unix://{node}/containerd.sock",
        "cgroupDriver": "cgroupfs",
        # Limits are in every manifest, and a pod of 0.4 cores would import for ten seconds.
        "cpuCFSQuota": False,
        "cgroupRoot": f"/{cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": False,
        # The machine's disk and memory are not this node's: never evict because of them.
        "evictionHard": {
            "memory.available": "0%",
            "nodefs.available": "0%",
            "imagefs.available": "0%",
            "nodefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeLeaseDurationSeconds": 4,  # renewed every second, so that a lost node is noticed soon
        "podLogsDir": f"{node}/log/pods",
        "volumePluginDir": f"{node}/volume-plugins",  # or the kubelet makes one under /usr/libexec
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
    }
