"""A registry on this machine as a site's own: the node trusts it, pods have a login for it."""

from __future__ import annotations

import base64
import json

from tests.cluster.cluster import Cluster
from tests.images.registry import PASSWORD, USER, RunningRegistry

PULL_SECRET = "site"


def trust_registry(cluster: Cluster, site: RunningRegistry) -> None:
    """Let the node believe the registry's certificate, as its administrator does."""
    folder = cluster.nodes[0].folder / "registries" / site.address
    folder.mkdir()
    (folder / "hosts.toml").write_text(
        f'server = "https://{site.address}"\nca = "{site.ca}"\n'
        f'[host."https://{site.address}"]\n  capabilities = ["pull", "resolve"]\n'
        f'  ca = "{site.ca}"\n'
    )


def make_pull_secret(
    cluster: Cluster,
    namespace: str,
    site: RunningRegistry,
    name: str = PULL_SECRET,
    password: str = PASSWORD,
) -> None:
    """Make a Secret with a login for the registry."""
    pair = base64.b64encode(f"{USER}:{password}".encode()).decode()
    login = json.dumps({"auths": {site.address: {"auth": pair}}})
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": name},
        "stringData": {".dockerconfigjson": login},
    }
    cluster.create(secret, namespace)
