"""`python -m tests.cluster.data.killed_put KUBECONFIG NAMESPACE DATA SOURCE BYTES` dies half-way.

Copies a folder to a data set, as `deployer data put` does; DATA is the data set as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from deployer.data.copy import copy
from deployer.data.folder_store import FolderStore
from deployer.executors.kubernetes.data.volumes import open_volume
from tests.cluster.bed import SECTION, open_client
from tests.data.killed_copy import Death
from tests.sections import parse_cluster, parse_data

if __name__ == "__main__":
    file, namespace, section, source, size_bytes = sys.argv[1:]
    [data] = parse_data(json.loads(section))
    kube = open_client(Path(file), namespace)
    with open_volume(kube, parse_cluster(SECTION), data, Path("/"), 1) as volume:
        copy(FolderStore(Path(source)), volume, Death(int(size_bytes)))
