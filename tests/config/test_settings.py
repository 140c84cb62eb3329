"""deployer.yaml as a whole: what is refused, at which line, in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.launch.pipeline import prepare_packing
from tests.project_files import read_project

SECRETS = """kubernetes:
  secrets:
    NO:
      name: A_B
      ky: b
"""
REFUSED = {
    "[]": ["deployer.yaml: is not a mapping"],
    "kubernets:\nreplicas:": [
        "deployer.yaml:1: kubernets: unknown key",
        "deployer.yaml:2: replicas: is empty",
    ],
    "entity: 3\nreplicas:\nowner: a\nowner: b": [
        "deployer.yaml:1: entity: 3 is not text",
        "deployer.yaml:2: replicas: is empty",
        "deployer.yaml:4: owner: the key appears twice (also in line 3); the last one counts",
    ],
    "'on': kubernetes\non: local": ["deployer.yaml:1: on: appears twice"],
    "on: ''": ["deployer.yaml:1: on: '' is not an executor"],
    # YAML 1.1 reads the name of the variable as false.
    SECRETS: [
        "deployer.yaml:3: kubernetes.secrets.NO.key: is missing",
        "deployer.yaml:4: kubernetes.secrets.NO.name: 'A_B' is not valid",
        "deployer.yaml:5: kubernetes.secrets.NO.ky: unknown key",
    ],
    "kubernetes:\n  labels: {team a: b c}": [
        "deployer.yaml:2: kubernetes.labels.team a: 'team a' is not valid",
        "deployer.yaml:2: kubernetes.labels.team a: 'b c' is not valid",
    ],
    "kubernetes:\n  env:\n    2026-01-01: a": [
        "deployer.yaml:2: kubernetes.env: a key must be text or a number"
    ],
    "warm: ['{hint}']": ["deployer.yaml:1: warm: '{hint}' is not the name of a package"],
}


def load(folder: Path, text: str) -> Project:
    (folder / "deployer.yaml").write_text(text)
    return read_project(folder, None)


@pytest.mark.parametrize("text", REFUSED)
def test_every_complaint_is_said_at_its_line_in_the_files_order(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, text)
    assert refused.value.message.splitlines() == REFUSED[text]


def test_a_value_that_comes_from_elsewhere_is_refused_as_one_of_the_file(tmp_path: Path) -> None:
    project = load(tmp_path, "on: kubernetes\n")
    with pytest.raises(ConfigError) as refused:
        project.with_image("Not/AN:image")
    assert refused.value.message == ("deployer.yaml: kubernetes.image: 'Not/AN:image' is not valid")
    with pytest.raises(ConfigError, match=r"kubernetes\.agents_per_pod: 20 is above 16"):
        prepare_packing(project, 20)
    here = load(tmp_path, "on: local\n")
    assert prepare_packing(here, 20) == here
