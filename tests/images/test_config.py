"""The section `image:` of deployer.yaml: what it takes, and every complaint with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.config.image import ImageConfig
from deployer.config.image_reference import Repository, parse_repository, split_reference
from deployer.errors import ConfigError
from tests.project_files import read_project

GOOD = (
    "registry.example/team/trainer",
    "localhost:5000/trainer",
    "localhost/trainer",
    "10.0.0.7:5000/a/b/c",
    "europe-west4-docker.pkg.dev/my-project/sweeps/trainer",
    "docker.io/someone/trainer_2.x",
    "registry:5000/trainer",
)
BAD = ("trainer", "someone/trainer", "registry.example", "registry.example/Trainer", "a.b/c:1", "")


def test_defaults_and_everything(tmp_path: Path) -> None:
    assert read_project(tmp_path).image == ImageConfig()
    (tmp_path / "deployer.yaml").write_text(
        "image:\n"
        "  repository: registry.example/team/trainer\n"
        "  dockerfile: docker/Trainer\n"
        "  context: src\n"
        "  build_args: {BASE: python:3.12, JOBS: 4}\n"
        "  variant: cpu\n"
        "  platform: linux/arm64\n"
        "  builder: podman\n"
        "  ca: registry.pem\n"
        "  plain_http: true\n"
    )
    settings = read_project(tmp_path).image
    assert settings.require_repository() == "registry.example/team/trainer"
    assert settings.arguments == {"BASE": "python:3.12", "JOBS": "4", "VARIANT": "cpu"}
    assert (settings.builder, settings.plain_http) == ("podman", True)


def test_all_complaints_at_once(tmp_path: Path) -> None:
    (tmp_path / "deployer.yaml").write_text(
        "replicas: 2\n"
        "image:\n"
        "  repository: trainer:latest\n"
        "  docker_file: Dockerfile\n"
        "  variant: gpu\n"
        "  build_args: [BASE]\n"
        "  plain_http: 'yes'\n"
    )
    with pytest.raises(ConfigError) as raised:
        read_project(tmp_path)
    said = {error.text: error.fix for error in raised.value.findings}
    repository = "deployer.yaml:3: image.repository: 'trainer:latest' is not valid"
    assert said[repository].startswith("write REGISTRY/NAME without a tag")
    assert said["deployer.yaml:4: image.docker_file: unknown key"] == "did you mean `dockerfile`?"
    assert (
        said["deployer.yaml:5: image.variant: 'gpu' is not known"]
        == "one of: 'cpu', 'cuda' or 'cuda12'"
    )
    assert "deployer.yaml:6: image.build_args: ['BASE'] is not a mapping" in said
    assert "deployer.yaml:7: image.plain_http: 'yes' is not true or false" in said
    assert len(said) == 5


def test_missing_repository() -> None:
    with pytest.raises(ConfigError) as raised:
        ImageConfig().require_repository()
    assert raised.value.message == "deployer.yaml: image.repository: is missing"
    assert "registry.example/team/trainer" in raised.value.hint


@pytest.mark.parametrize("name", GOOD)
def test_repositories(name: str) -> None:
    assert str(parse_repository(name)) == name
    assert ImageConfig(repository=name).repository == name


@pytest.mark.parametrize("name", BAD)
def test_no_repositories(name: str) -> None:
    with pytest.raises(ConfigError, match="is not valid"):
        parse_repository(name)


def test_half_a_place_in_artifact_registry() -> None:
    with pytest.raises(ConfigError, match="is not an Artifact Registry image") as raised:
        parse_repository("europe-west4-docker.pkg.dev/my-project/trainer")
    assert raised.value.hint == "write LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/NAME"


def test_what_a_repository_says() -> None:
    google = parse_repository(GOOD[4])
    assert google.is_artifact_registry
    assert google.google_place == ("europe-west4", "my-project", "sweeps")
    assert parse_repository("eu.gcr.io/my-project/trainer").is_google
    assert not parse_repository("gcr.io.example/x").is_google
    assert Repository("docker.io", "someone/x").api_host == "registry-1.docker.io"
    assert split_reference("localhost:5000/x:1") == ("localhost:5000/x", "1")
    assert split_reference("localhost:5000/x") == ("localhost:5000/x", "")
