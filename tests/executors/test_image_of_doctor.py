"""What the doctor says of an image that is built from the section `image:`."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.config.project import Flags
from deployer.executors.base import Demand
from deployer.executors.kubernetes.executor import KubernetesExecutor
from deployer.launch.planning import build_draft
from tests.executors.refusing_server import serve_refusals
from tests.project_files import read_project

REPOSITORY = "127.0.0.1:1/team/trainer"


@pytest.mark.parametrize("image", [f"image: {{repository: {REPOSITORY}}}", ""])
def test_an_image_that_is_not_built_is_judged_by_its_dockerfile(tmp_path: Path, image: str) -> None:
    """No registry is asked for what only stands for it in the draft of a Job."""
    section = "kubernetes: {code: image, template: job.yaml}"
    (tmp_path / "deployer.yaml").write_text(f"{image}\n" if image else f"{section}\n")
    (tmp_path / "job.yaml").write_text(
        "{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {template: {spec: "
        "{restartPolicy: Never, containers: [{name: main, image: '127.0.0.1:1/own:3'}]}}}}"
    )
    project = read_project(tmp_path, Flags(on="kubernetes", wandb="http://w.example"))
    executor = KubernetesExecutor("kubernetes", project)
    with serve_refusals(tmp_path, {}, there=["namespaces/ns"]) as kube:
        executor.target.kube = kube
        found = executor.examine(Demand(build_draft(project, "http://w.example", own_keys=False)))
    said = [one for one in found if one.code == "image"]
    if not image:
        assert said == []
        return
    assert [one.subject for one in said] == [f"image {REPOSITORY}"]
    assert "Dockerfile: file not found" in said[0].message
