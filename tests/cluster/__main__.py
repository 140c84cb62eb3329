"""Run a command against a test cluster of its own: `python -m tests.cluster kubectl get nodes`.

The command finds KUBECONFIG, kubectl on PATH and, in CLUSTER_HOST, this machine's address as pods
see it. Without a command the cluster stays until Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from tests.cluster.cluster import start_cluster


def main(command: list[str]) -> int:
    """Start a cluster, run the command, stop the cluster and return the command's exit code."""
    cluster = start_cluster()
    tools = str(cluster.programs["kubectl"].parent)
    offered = {"KUBECONFIG": str(cluster.kubeconfig), "CLUSTER_HOST": cluster.host}
    try:
        if command:
            path = f"{tools}:{os.environ['PATH']}"
            return subprocess.run(command, env={**os.environ, **offered, "PATH": path}).returncode
        sys.stdout.write("".join(f"export {name}={value}\n" for name, value in offered.items()))
        sys.stdout.write(f"export PATH={tools}:$PATH\n")
        sys.stdout.flush()
        signal.pause()
    except KeyboardInterrupt:
        return 130
    finally:
        cluster.folder.release()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
