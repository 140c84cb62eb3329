"""Leaves out of a Job what an older server does not know; pure.

Source: pkg/features/kube_features.go of kubernetes/kubernetes. JobPodFailurePolicy is on from 1.26,
JobPodReplacementPolicy from 1.29.
"""

from __future__ import annotations

import re

from deployer.executors.kubernetes.manifests.fields import Manifest
from deployer.kube.kinds import JOB, kind_of

SINCE = {"podFailurePolicy": (1, 26), "podReplacementPolicy": (1, 29)}
VERSION = re.compile(r"v?(\d+)\.(\d+)")


def parse_version(version: str) -> tuple[int, int] | None:
    """Return major and minor of a server's version; None if it names none."""
    found = VERSION.match(version)
    return (int(found[1]), int(found[2])) if found else None


def fit_manifest(manifest: Manifest, version: str) -> Manifest:
    """Return a manifest with fields alone that a server of this version knows."""
    known = parse_version(version)
    if known is None or kind_of(manifest) != JOB:
        return manifest
    spec = {
        name: value for name, value in manifest["spec"].items() if SINCE.get(name, known) <= known
    }
    return {**manifest, "spec": spec}
