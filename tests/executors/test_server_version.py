"""Older servers get only the fields that they know; the oldest is 1.24."""

from __future__ import annotations

import pytest

from deployer.executors.kubernetes.manifests.server_version import SINCE, fit_manifest
from tests.executors.profiles import build_profile


@pytest.mark.parametrize(
    ("version", "left_out"),
    [
        ("v1.24.17", {"podFailurePolicy", "podReplacementPolicy"}),
        ("v1.26.0-gke.1", {"podReplacementPolicy"}),
        ("v1.28.9", {"podReplacementPolicy"}),
        ("v1.29.0", set()),
        ("v1.34.10", set()),
        ("", set()),
    ],
)
def test_a_job_has_what_its_server_knows(version: str, left_out: set[str]) -> None:
    *others, _, job = build_profile("gpus", "research")
    fitted = fit_manifest(job, version)
    assert job["spec"].keys() - fitted["spec"].keys() == left_out
    assert SINCE.keys() <= job["spec"].keys()
    assert fitted["spec"]["template"] == job["spec"]["template"]
    assert [fit_manifest(one, version) for one in others] == others
