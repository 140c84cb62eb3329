"""Asks the cloud and a cluster's Kubernetes for what the rule (rule.py) wants to know."""

from __future__ import annotations

import time
from collections.abc import Callable

from deployer.errors import CloudError, DeployerError
from deployer.gke.api.client import Gke
from deployer.gke.api.compute import LOCATION_LABEL, NAME_LABEL, Compute
from deployer.gke.api.model import CloudCluster
from deployer.gke.api.operations import describe_operation, find_running
from deployer.gke.cluster.access import open_kube_of
from deployer.gke.cluster.rule import KINDS, Facts
from deployer.kube.client import Kube

# Kubernetes that refuses connections is given up soon; one that is silent has its time-outs.
KUBE_PAUSE_SECONDS = 0.2


def gather_facts(
    gke: Gke, cluster: CloudCluster, sleep: Callable[[float], None] = time.sleep
) -> Facts:
    """Return what is in a cluster and whose it is; what does not answer is named in the facts.

    A cluster without an address has never had a Kubernetes.
    """
    unanswered: list[str] = []
    operation, disks, objects, kube_owner = None, [], {}, None
    try:
        operation = find_running(gke, cluster.location, cluster.name)
    except CloudError as error:
        unanswered.append(error.message)
    try:
        found = Compute(gke).list_disks(f"labels.{NAME_LABEL}={cluster.name}")
        here = (one for one in found if one.labels.get(LOCATION_LABEL) == cluster.location)
        disks = [one for one in here if not one.of_node]
    except CloudError as error:
        unanswered.append(error.message)
    if cluster.endpoint:
        try:
            every = open_kube_soon(gke, cluster, sleep).in_namespace("")
            objects = {kind: every.list_objects(kind) for kind in KINDS}
            kube_owner = every.owner
        except DeployerError as error:
            unanswered.append(error.message)
    doing = describe_operation(operation) if operation else ""
    return Facts(cluster.owner, kube_owner, doing, objects, tuple(disks), tuple(unanswered))


def open_kube_soon(
    gke: Gke, cluster: CloudCluster, sleep: Callable[[float], None] = time.sleep
) -> Kube:
    """Return a client of a cluster's Kubernetes that gives up soon if connections are refused.

    Raises CloudError.
    """
    return open_kube_of(gke, cluster, None, lambda seconds: sleep(min(seconds, KUBE_PAUSE_SECONDS)))
