"""A test cluster as tests see it: start or join it, add nodes and images, break it, look inside."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kubernetes import config, dynamic

from tests.cluster.control_plane import simulated
from tests.cluster.control_plane.binaries import find_programs
from tests.cluster.control_plane.folder import START_SECONDS, Folder, join_folder, make_folder
from tests.cluster.control_plane.network import Link, can_make_links
from tests.cluster.control_plane.node import Node, import_image, make_node_network, start_node
from tests.cluster.control_plane.node_settings import build_node_rights
from tests.cluster.control_plane.packages import find_runtime
from tests.cluster.control_plane.pki import Pki, load_pki, make_pki
from tests.cluster.control_plane.servers import start_servers, wait_for_servers
from tests.cluster.control_plane.services import build_api_endpoint, start_services

IMAGE = "localhost/python:dev"  # a shell, and this machine's Python and project by mounts
KWOK = "kwok"
KUBELET_SECONDS = 11.0  # a little more than between two of its reports


@dataclass(frozen=True)
class Cluster:
    """A running cluster, shared by all tests of a run unless a test made its own."""

    folder: Folder
    server: str
    nodes: tuple[Node, ...]
    version: str

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.folder.path / "admin.kubeconfig"

    @property
    def host(self) -> str:
        """Return this machine's address as pods see it: servers for them listen on it."""
        return self.nodes[0].link.host

    @cached_property
    def programs(self) -> Mapping[str, Path]:
        return find_programs(self.version)

    @cached_property
    def pki(self) -> Pki:
        return load_pki(self.folder.path / "pki")

    @cached_property
    def client(self) -> dynamic.DynamicClient:
        """Return the administrator's client."""
        return connect(self.kubeconfig)

    def create(self, manifest: Mapping[str, Any], namespace: str | None = None) -> Any:
        """Create any object as the administrator."""
        kind = self.client.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])
        return kind.create(body=dict(manifest), namespace=namespace)

    def kubectl(self, *arguments: str, kubeconfig: Path | None = None, stdin: str = "") -> str:
        """Run the real kubectl and return its output; raise with its own words when it fails."""
        done = self.try_kubectl(*arguments, kubeconfig=kubeconfig, stdin=stdin)
        if done.returncode:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def try_kubectl(
        self, *arguments: str, kubeconfig: Path | None = None, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run the real kubectl and return what came of it."""
        return subprocess.run(
            [self.programs["kubectl"], f"--kubeconfig={kubeconfig or self.kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env={**os.environ, "HOME": str(self.folder.path)},  # keeps discovery between calls
        )

    def wait_for(self, thing: str, condition: str, namespace: str = "default") -> None:
        """Wait as `kubectl wait --for=` does: ("pod/x", "jsonpath=.status.phase=Running")."""
        limit = f"--timeout={START_SECONDS:.0f}s"
        self.kubectl("wait", thing, f"--for={condition}", "-n", namespace, limit)

    def add_gpu_nodes(
        self,
        count: int = 1,
        gpus: int = 8,
        product: str = simulated.GPU_PRODUCT,
        resource: str = "nvidia.com/gpu",
        prefix: str = "gpu",
        simulator: str = KWOK,
    ) -> list[str]:
        """Add simulated GPU nodes PREFIX-0 … and return their names; the caller deletes them."""
        self.start_simulator(simulator)
        names = [f"{prefix}-{number}" for number in range(count)]
        for name in names:
            self.create(simulated.build_gpu_node(name, gpus, product, resource, simulator))
        for name in names:
            self.wait_for(f"node/{name}", "condition=Ready")
        return names

    def start_simulator(self, name: str = KWOK) -> None:
        """Have simulated nodes of this name come to life, from now on."""
        simulated.start_simulator(self.folder, self.programs, self.pki, self.server, name)

    def set_gpus(self, node: str, count: int, resource: str = "nvidia.com/gpu") -> None:
        """Advertise GPUs on a real node, as Kubernetes documents it, until the node restarts."""
        counted = {resource: str(count)}  # allocatable too: the kubelet copies it every 10 s
        patch = json.dumps({"status": {"capacity": counted, "allocatable": counted}})
        change = ("patch", "node", node, "--subresource=status", "--type=merge", "-p", patch)
        allocatable = "jsonpath={.status.allocatable." + resource.replace(".", "\\.") + "}"
        look = ("get", "node", node, "-o", allocatable)
        falls = count == 0 and self.kubectl(*look) not in ("", "0")
        self.kubectl(*change)
        # A kubelet that had read the node before writes the former count once more.
        deadline = time.monotonic() + (KUBELET_SECONDS if falls else 0)
        while time.monotonic() < deadline:
            if self.kubectl(*look) != str(count):
                self.kubectl(*change)
            time.sleep(1)

    def add_image(self, *names: str, folders: Mapping[str, Path] | None = None) -> None:
        """Make the tiny image known to every real node under other names, as if pulled.

        `folders` are copied into it: {"/opt": a folder with bin/python} makes a foreign image.
        """
        for node in self.nodes:
            import_image(node, self.programs["ctr"], find_runtime(), names, folders or {})

    def lose_node(self, name: str) -> None:
        """Cut the power of a real node, or of a simulator (`kwok-NAME`)."""
        self.folder.pause_process(name)

    def return_node(self, name: str) -> None:
        """Give a node its power back."""
        self.folder.resume_process(name)

    def list_requests(self, user: str | None = None) -> list[dict[str, Any]]:
        """Return the audit log in order: verb, user, objectRef, requestObject (writes only), …"""
        with open(self.folder.path / "log/audit.jsonl") as log:
            events = [json.loads(line) for line in log]
        # Whoever was refused has no name.
        return [event for event in events if user in (None, event["user"].get("username"))]


def start_cluster(
    nodes: int = 1, *, short_timeouts: bool = False, version: str = "kubernetes"
) -> Cluster:
    """Start a cluster with this many real nodes (0 needs no root), in 5 to 10 s once it is built.

    `short_timeouts`: a lost node is noticed after 12 s instead of 6 minutes.
    `version`: the folder in `control_plane/modules` with the Kubernetes to run.
    """
    if nodes and not can_make_links():
        raise PermissionError("a real node needs root: run the tests in tests/cluster as root")
    programs = find_programs(version)
    runtime = find_runtime() if nodes else Path()
    folder = make_folder()
    try:
        made = tuple(make_node_network(folder, f"node-{number}") for number in range(nodes))
        addresses = tuple(node.link.host for node in made)
        pki = make_pki(folder.path / "pki", ("10.0.0.1", *addresses))
        listen = addresses[0] if addresses else "127.0.0.1"
        server = start_servers(folder, programs, pki, listen, short_timeouts)
        cluster = Cluster(folder, server, made, version)
        pki.write_kubeconfig(cluster.kubeconfig, server, "admin", "system:masters")
        wait_for_servers(folder, pki, server)
        cluster.create(build_node_rights())
        for node in made:
            start_node(folder, node, programs, runtime, pki, server, [IMAGE])
        _finish(cluster, runtime)
    except BaseException:
        folder.release()
        raise
    return cluster


def _finish(cluster: Cluster, runtime: Path) -> None:
    """Wait for the nodes, give them services and DNS, and write down how to join."""
    if cluster.nodes:  # Kubernetes refuses an endpoint on loopback
        cluster.create(build_api_endpoint(cluster.server), "default")
    for node in cluster.nodes:
        cluster.wait_for(f"node/{node.name}", "create")
        start_services(cluster.folder, node, cluster.programs, runtime, cluster.pki, cluster.server)
        cluster.wait_for(f"node/{node.name}", "condition=Ready")
    state = {
        "server": cluster.server,
        "version": cluster.version,
        "nodes": [{**asdict(node), "folder": str(node.folder)} for node in cluster.nodes],
    }
    (cluster.folder.path / "cluster.json").write_text(json.dumps(state))


def join_cluster(path: Path) -> Cluster | None:
    """Join a cluster that another test process started, or return None if it is ending."""
    folder = join_folder(path)
    if folder is None:
        return None
    state = json.loads((path / "cluster.json").read_text())
    nodes = tuple(
        Node(one["name"], Link(one["link"]["number"]), Path(one["folder"]), one["network"])
        for one in state["nodes"]
    )
    return Cluster(folder, state["server"], nodes, state["version"])


def connect(kubeconfig: Path) -> dynamic.DynamicClient:
    """Return a client for a kubeconfig, with its discovery cached beside it."""
    cache = kubeconfig.with_suffix(f".discovery-{os.getpid()}")
    client = config.new_client_from_config(config_file=str(kubeconfig))  # type: ignore[no-untyped-call]
    return dynamic.DynamicClient(client, cache_file=str(cache))  # type: ignore[no-untyped-call]
