"""A real node: containerd, runc and a kubelet that run real pods; needs root.

Its mounts, processes and network live in namespaces: killing its one process is a power cut, and
what it leaves are empty cgroups, which the keeper removes. It needs util-linux, iproute2,
libseccomp2 and overlayfs of the machine, cgroup v1 (tried) or v2 (the same code, untried).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.control_plane.folder import Folder
from tests.cluster.control_plane.image import build_image
from tests.cluster.control_plane.keeper import CGROUPS
from tests.cluster.control_plane.network import Link, make_link
from tests.cluster.control_plane.node_settings import (
    PAUSE_IMAGE,
    build_containerd_settings,
    build_kubelet_settings,
    build_pod_network,
)
from tests.cluster.control_plane.pki import Pki

INIT = Path(__file__).with_name("node-init.sh")
PROJECT = Path(__file__).parents[3]
# Everything a pod needs to run this very Python with this very project, and TLS to the outside.
SHARED = tuple(
    dict.fromkeys(
        Path(path) for path in ("/usr", "/etc/ssl", sys.base_prefix, str(PROJECT), sys.prefix)
    )
)
# Where the environment is, too: a volume over /tmp hides one that lies below it.
ENVIRONMENT = Path("/deployer-tests/environment")
GPU_PRODUCT = "Tesla-T4"  # as GPU feature discovery would label it; the GPUs are only counted


@dataclass(frozen=True)
class Node:
    """A real node of a cluster."""

    name: str
    link: Link
    folder: Path
    network: str  # the path of its network namespace

    @property
    def inside(self) -> tuple[str, str]:
        """Return the command that runs another command in this node's network."""
        return ("nsenter", f"--net={self.network}")


def make_node_network(folder: Folder, name: str) -> Node:
    """Make a node's folder and network, which outlive a power cut of the node."""
    folder.set_process(f"{name}-network", ["unshare", "--net", "sleep", "infinity"])
    process_id = folder.get_pid(f"{name}-network")
    network = Path(f"/proc/{process_id}/ns/net")
    own = Path("/proc/self/ns/net").readlink()
    folder.wait_for(f"network of {name}", lambda: network.readlink() != own)
    path = folder.path / name
    for part in ("log", "cni", "registries"):
        (path / part).mkdir(parents=True)
    link = make_link(process_id)
    (folder.path / "links" / link.device).touch()  # for the keeper to remove
    return Node(name, link, path, str(network))


def start_node(
    folder: Folder,
    node: Node,
    programs: Mapping[str, Path],
    runtime: Path,
    pki: Pki,
    server: str,
    images: Sequence[str],
) -> None:
    """Start a node as the process `NAME`; it registers itself after about a second."""
    cgroup = f"{folder.path.name}-{node.name}"
    _write_settings(node, programs["ctr"], runtime, pki, cgroup)
    build_image(node.folder / "image.tar", runtime / "bin/busybox", [PAUSE_IMAGE, *images])
    make_cgroups(cgroup)
    kubeconfig = node.folder / "kubeconfig"
    pki.write_kubeconfig(kubeconfig, server, f"system:node:{node.name}", "system:nodes")
    spaces = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    folder.set_process(
        node.name,
        [
            *node.inside,
            *spaces,
            *("sh", INIT, node.folder, runtime, programs["containerd"].parent),
            programs["kubelet"],
            f"--kubeconfig={kubeconfig}",
            f"--config={node.folder}/kubelet.json",
            f"--root-dir={node.folder}/kubelet",
            f"--cert-dir={node.folder}/kubelet-pki",
            f"--node-ip={node.link.node}",
            f"--hostname-override={node.name}",
            f"--node-labels=nvidia.com/gpu.product={GPU_PRODUCT}",
            "--runtime-cgroups=/",
        ],
    )


def make_cgroups(name: str) -> None:
    """Make the cgroup of a node in every hierarchy; the keeper removes them."""
    for folder in _cgroup_folders(name):
        folder.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):  # cgroup v1 starts a child's cpuset empty
            if (folder.parent / "tasks").exists() and (folder / file).exists():
                (folder / file).write_text((folder.parent / file).read_text())


def _cgroup_folders(name: str) -> list[Path]:
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS / name]
    hierarchies = [path for path in CGROUPS.iterdir() if (path / "tasks").exists()]
    return [path / name for path in hierarchies if path.name != "unified"]


def _write_settings(node: Node, ctr: Path, runtime: Path, pki: Pki, cgroup: str) -> None:
    path = node.folder
    (path / "containerd.toml").write_text(build_containerd_settings(path, runtime))
    network = build_pod_network(path, node.link)
    (path / "cni/10-pods.conflist").write_text(json.dumps(network, indent=1))
    kubelet = build_kubelet_settings(path, pki.authority_file, cgroup, node.link)
    (path / "kubelet.json").write_text(json.dumps(kubelet, indent=1))
    spec = json.loads(subprocess.check_output([ctr, "oci", "spec"]))
    del spec["process"]["rlimits"]  # else runc tries to raise the limit of open files
    for source, target in (*zip(SHARED, SHARED, strict=True), (Path(sys.prefix), ENVIRONMENT)):
        mount = {"type": "bind", "source": str(source.resolve()), "options": ["rbind", "ro"]}
        spec["mounts"].append({"destination": str(target), **mount})
    (path / "base-spec.json").write_text(json.dumps(spec, indent=1))


def import_image(
    node: Node, ctr: Path, runtime: Path, names: Sequence[str], folders: Mapping[str, Path]
) -> None:
    """Make the tiny image, with these folders in it, known to a running node under these names."""
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch) / "image.tar"
        build_image(archive, runtime / "bin/busybox", names, folders)
        address = f"--address={node.folder}/containerd.sock"
        command = (ctr, address, "--namespace=k8s.io", "images", "import", archive)
        subprocess.run(command, check=True, capture_output=True)
