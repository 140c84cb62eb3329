"""How a backend in a cluster is: its pod's state, and what its server says of itself."""

from __future__ import annotations

from deployer.backend.server.health import Health, probe
from deployer.errors import BackendError, KubeError
from deployer.executors.kubernetes.backend.deployment import ClusterBackend
from deployer.executors.kubernetes.backend.readiness import choose_hint, explain_absence
from deployer.executors.kubernetes.backend.removal import find_data
from deployer.executors.kubernetes.backend.tunnel import open_forward
from deployer.kube.client import Kube
from deployer.kube.kinds import POD
from deployer.kube.objects import find_container_state

PROBE_SECONDS = 10.0  # through the API server and the kubelet, which take their time


def examine_backend(kube: Kube, backend: ClusterBackend) -> Health:
    """Ask the server how it is; where we may not, its pod's readiness says it. Raises KubeError."""
    if not find_container_state(kube.get(POD, backend.pod) or {}, "running"):
        return Health.AWAY
    try:
        forward = open_forward(kube, backend, patient=False)
    except KubeError as error:
        if not error.forbidden:
            raise
        return Health.READY if backend.ready else Health.AWAY
    with forward:
        return probe(forward.url, PROBE_SECONDS)


def describe_trouble(kube: Kube, backend: ClusterBackend, health: Health) -> BackendError | None:
    """Say what is wrong with a backend and what to do; None if nothing is. Raises KubeError."""
    if health is Health.HUNG:
        return BackendError(
            f"the embedded backend hangs: pod {backend.pod} answers nothing",
            kube.with_context(
                "replace it, its data stays: "
                f"kubectl delete pod {backend.pod} -n {backend.namespace}"
            ),
        )
    if health is Health.DISK_FULL:
        claim = find_data(kube)
        return BackendError(
            f"the disk of the embedded backend is full: PersistentVolumeClaim {claim}",
            kube.with_context(
                "enlarge it, where its storage class allows that: "
                f"kubectl edit pvc {claim} -n {backend.namespace}"
            ),
        )
    if health is Health.AWAY:
        why = explain_absence(kube, backend.name)
        said = f"the embedded backend is not ready: {why.words or 'its server starts'}"
        return BackendError(said, choose_hint(kube, backend.name, why))
    return None
