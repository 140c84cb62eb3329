"""What the doctor mends: it makes what is missing and gives no rights; it changes nothing."""

from __future__ import annotations

import logging

from deployer.errors import KubeError
from deployer.findings import Finding
from deployer.kube.client import Kube
from deployer.kube.kinds import NAMESPACE, SERVICE_ACCOUNT, Kind

LOG = logging.getLogger(__name__)


def mend(kube: Kube, finding: Finding) -> bool:
    """Create a missing namespace or ServiceAccount, and return True if it was created.

    A refusal of the cluster is logged.
    """
    kinds = {"namespace": NAMESPACE, "service-account": SERVICE_ACCOUNT}
    kind = kinds.get(finding.code)
    if kind is None:
        return False
    name = finding.subject.rpartition(" ")[2]
    try:
        made = kube.create_once(_build(kind, name))
    except KubeError as error:
        LOG.info(error.message)
        return False
    if made:
        LOG.info(f"created {finding.subject}")
    return made


def _build(kind: Kind, name: str) -> dict[str, object]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
