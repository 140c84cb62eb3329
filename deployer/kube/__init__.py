"""The only door to Kubernetes: plain dicts in and out, every failure as one `KubeError`.

Importing it imports the Kubernetes client, a third of a second: do so where it is used.
"""

from deployer.kube.access import Access, build_access, load_access
from deployer.kube.door import Kube, open_kube
from deployer.kube.forward import Forward
from deployer.kube.kinds import (
    CLAIM,
    CONFIG_MAP,
    EVENT,
    JOB,
    NODE,
    POD,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    VOLUME,
    Kind,
    Manifest,
    kind_of,
)
from deployer.kube.logs import LogLine, follow_log, read_log

__all__ = [
    "CLAIM",
    "CONFIG_MAP",
    "EVENT",
    "JOB",
    "NODE",
    "POD",
    "SECRET",
    "SERVICE",
    "STATEFUL_SET",
    "VOLUME",
    "Access",
    "Forward",
    "Kind",
    "Kube",
    "LogLine",
    "Manifest",
    "build_access",
    "follow_log",
    "kind_of",
    "load_access",
    "open_kube",
    "read_log",
]
