"""The main job on a real cluster: `make demo-kubernetes` runs `main`.

Project, home, backend and its data lie in the cluster's folder: its keeper ends and deletes all of
it, also after Ctrl-C or `kill -9`.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml

from deployer.backend.data_folder import read_key
from deployer.kube.objects import build_selector
from tests.cluster.cluster import IMAGE, Cluster, start_cluster
from tests.cluster.control_plane.binaries import build_ahead

PROJECT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
AGENTS = 4
NAMESPACE = "sweeps"
RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
OURS = ("get", "jobs,pods,secrets,configmaps", "-n", NAMESPACE, "-l", build_selector())
# Of each core, so that the agents' pods and the cluster's DNS fit on the node together.
MILLICORES_FOR_AGENTS = 900


def main() -> int:
    """Run the demo; return the exit code of what failed first, else 0."""
    if os.geteuid():
        _say("error: the cluster's node runs real pods, which takes root")
        _say("hint: sudo make demo-kubernetes, or without a cluster: make demo")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    build_ahead("kubernetes", "etcd", "coredns")
    started = time.monotonic()
    _say("starting a Kubernetes of our own: API server, controllers, scheduler, a node for pods")
    try:
        cluster = start_cluster()
        try:
            code = Demo(cluster).run()
        finally:
            cluster.folder.release()
    except KeyboardInterrupt:
        code = 130
    _say(f"\nthe cluster and its backend are gone again, after {time.monotonic() - started:.0f} s")
    return code


class Demo:
    """A shell on a machine with a kubeconfig, a project and a W&B server that pods reach."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._project = cluster.folder.path / "project"
        self._data = cluster.folder.path / "backend"
        home = cluster.folder.path / "home"
        home.mkdir()
        self._environment = {
            "HOME": str(home),
            "DEPLOYER_HOME": str(home / "deployer"),
            "KUBECONFIG": str(cluster.kubeconfig),
            "PATH": f"{BIN}:{cluster.programs['kubectl'].parent}:{os.environ['PATH']}",
        }

    def run(self) -> int:
        """Show the main job: up, what it made, down, and that nothing is left."""
        self._write_project()
        self._show("kubectl", "get", "nodes")
        self._serve()
        up = ("deployer", "up", "sweeps/digits.yaml", "--replicas", str(AGENTS))
        code = self._show(*up, "--on", "kubernetes", "--plain")
        if code:
            return code
        self._show("kubectl", *OURS)
        code = self._show("deployer", "down", "--on", "kubernetes")
        self._show("kubectl", *OURS)
        left = self._cluster.kubectl(*OURS, "-o", "name")
        return code or int(bool(left))

    def _write_project(self) -> None:
        """Make a project folder as a user has one, with a `deployer.yaml` for this cluster."""
        self._cluster.kubectl("create", "namespace", NAMESPACE)
        self._cluster.kubectl("label", "namespace", NAMESPACE, RESTRICTED)
        for name in ("sweeps", "trainer"):
            unwanted = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PROJECT / name, self._project / name, ignore=unwanted)
        millicores = MILLICORES_FOR_AGENTS * (os.cpu_count() or 1) // AGENTS
        section = {
            "namespace": NAMESPACE,
            "image": IMAGE,
            "python": sys.executable,
            "gpu": 0,
            "cpu": f"{min(millicores, 1000)}m",
            "memory": "1Gi",
            "env": {"PATH": f"{BIN}:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        }
        text = yaml.safe_dump({"project": "digits", "kubernetes": section}, sort_keys=False)
        (self._project / "deployer.yaml").write_text(text)

    def _serve(self) -> None:
        """Serve the backend on this machine, on the address at which pods see it."""
        words = ("deployer", "backend", "serve", "--host", self._cluster.host)
        _say(f"\n$ {shlex.join(words)} &")
        command = [str(BIN / words[0]), *words[1:], f"--data={self._data}"]
        folder = self._cluster.folder
        folder.set_process("backend", command, self._environment)
        folder.wait_for("backend", lambda: "http" in folder.read_log("backend"), "backend")
        url = next(word for word in folder.read_log("backend").split() if "http" in word)
        _say(url)
        self._environment |= {"WANDB_BASE_URL": url, "WANDB_API_KEY": read_key(self._data)}

    def _show(self, *words: str) -> int:
        """Run a command in the project folder as somebody at a terminal would, and show both."""
        _say(f"\n$ {shlex.join(words)}")
        environment = {**_without_wandb(), **self._environment}
        return subprocess.run(words, cwd=self._project, env=environment).returncode


def _without_wandb() -> dict[str, str]:
    """Return the caller's environment without the caller's W&B account."""
    ours = ("WANDB_", "DEPLOYER_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
