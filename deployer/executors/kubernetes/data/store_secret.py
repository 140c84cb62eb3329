"""The Secret with an object store's credentials."""

from __future__ import annotations

import base64

from deployer.errors import DataError
from deployer.kube.client import Kube
from deployer.kube.kinds import SECRET

AMAZON_KEYS = "--from-env-file=FILE with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
GOOGLE_KEYS = "--from-file=key.json=FILE, a service account's key"


def read_secret(kube: Kube, name: str, url: str = "") -> dict[str, str]:
    """Return what is in a Secret, for the store at `url`.

    Raises DataError if there is none, KubeError.
    """
    found = kube.get(SECRET, name)
    if found is None:
        keys = GOOGLE_KEYS if url.startswith("gs://") else AMAZON_KEYS
        raise DataError(
            f"Secret {name} not found in namespace {kube.namespace}",
            kube.with_context(f"kubectl create secret generic {name} -n {kube.namespace} {keys}"),
        )
    encoded = found.get("data") or {}
    return {
        key: base64.b64decode(value).decode(errors="replace").strip()
        for key, value in encoded.items()
    }
