"""What a failed test shows of its namespace: Jobs, pods, events and logs."""

from __future__ import annotations

from tests.cluster.cluster import Cluster

LOG_LINES = 60


def describe_namespace(cluster: Cluster, namespace: str) -> str:
    """Return what kubectl tells about a namespace, one part after the other."""
    look = ("-n", namespace)
    parts = [
        _ask(
            cluster, "get", "jobs,pods,persistentvolumeclaims,resourcequotas", *look, "-o", "wide"
        ),
        _ask(cluster, "get", "events", *look, "--sort-by=.lastTimestamp"),
    ]
    pods = cluster.try_kubectl("get", "pods", *look, "-o", "name").stdout.split()
    for pod in pods[:20]:
        tail = f"--tail={LOG_LINES}"
        parts.append(_ask(cluster, "logs", pod, *look, "--all-containers", "--timestamps", tail))
    return "\n".join(parts)


def _ask(cluster: Cluster, *arguments: str) -> str:
    done = cluster.try_kubectl(*arguments)
    return f"$ kubectl {' '.join(arguments)}\n{done.stdout}{done.stderr}"
