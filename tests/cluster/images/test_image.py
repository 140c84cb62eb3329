"""The project's image built by buildah, pushed to a real registry, carried, and run in a pod."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployer.config.image import ImageConfig
from deployer.errors import ImageError
from deployer.images.image import build_image, find_pushed, push_image
from deployer.images.image_file import load_image, save_image
from tests.cluster.cluster import Cluster
from tests.cluster.pods import build_pod
from tests.cluster.site_registry import PULL_SECRET, make_pull_secret, trust_registry
from tests.faults.disk import small_disk
from tests.images.registry import PASSWORD, RunningRegistry, serve_registry
from tests.images.workshop import BASE, Workshop, open_workshop

pytestmark = [pytest.mark.slow, pytest.mark.kube, pytest.mark.full]
MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    with open_workshop(tmp_path_factory.mktemp("workshop")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def own_home(workshop: Workshop, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the home of buildah's settings; the tests' own is empty."""
    assert home.is_dir()
    monkeypatch.setenv("HOME", str(workshop.folder / "home"))


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with serve_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="module")
def project(workshop: Workshop) -> Path:
    return workshop.copy_project(workshop.folder / "project")


@pytest.fixture(scope="module")
def settings(registry: RunningRegistry) -> ImageConfig:
    return ImageConfig(
        repository=f"{registry.address}/team/trainer",
        build_args={"BASE": BASE, "EXTRAS": ""},  # without PyTorch's gigabytes
        builder="buildah",
    )


@pytest.fixture(scope="module")
def pushed(project: Path, settings: ImageConfig, registry: RunningRegistry) -> str:
    return push_image(settings, project, {**os.environ, **registry.environment})


def test_second_push_does_nothing(
    pushed: str,
    project: Path,
    settings: ImageConfig,
    registry: RunningRegistry,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    assert pushed.startswith(f"{settings.repository}@sha256:")
    assert find_pushed(settings, project, registry.environment) == pushed
    writes = registry.read_log().count('"PUT ') + registry.read_log().count('"POST ')
    assert push_image(settings, project, {**os.environ, **registry.environment}) == pushed
    assert caplog.messages[-1].endswith("already in the registry")
    log = registry.read_log()
    assert log.count('"PUT ') + log.count('"POST ') == writes
    reference, _ = build_image(settings, project, os.environ)
    assert caplog.messages[-1] == f"{reference}: already built"
    assert PASSWORD not in caplog.text


def test_code_change_pushes_no_more_than_the_code(
    pushed: str, project: Path, settings: ImageConfig, registry: RunningRegistry
) -> None:
    before = registry.count_stored_bytes()
    with (project / "deployer/executors/plan.py").open("a") as code:
        code.write("\n# A line more.\n")
    changed = push_image(settings, project, {**os.environ, **registry.environment})
    assert changed != pushed
    uploaded = registry.count_stored_bytes() - before
    assert 0 < uploaded < 1.5 * MEBIBYTE, f"{uploaded:,} bytes"
    assert "PUT /v2/team/trainer/blobs/uploads/" in registry.read_log()
    assert find_pushed(settings, project, registry.environment) == changed


@pytest.mark.usefixtures("pushed")
def test_what_is_inside(workshop: Workshop, project: Path, settings: ImageConfig) -> None:
    image, _ = build_image(settings, project, os.environ)
    assert workshop.run(image, "id", "-u") == "1000"
    code = (
        "import deployer, deployer.agent, deployer.backend.server.app, trainer, wandb, sys; "
        "from deployer.executors.kubernetes.manifests.templates import load_templates; "
        "load_templates(); "
        "print(deployer.__version__, deployer.__file__)"
    )
    assert workshop.run(image, "python3", "-c", code) == "0.1.0 /opt/code/deployer/__init__.py"
    assert "up" in workshop.run(image, "deployer", "--help")
    described = json.loads(workshop.buildah("inspect", "--type", "image", image))["OCIv1"]
    assert described["config"]["User"] == "1000:1000"
    labels = described["config"]["Labels"]
    assert labels["org.opencontainers.image.title"] == "deployer"
    assert labels["org.opencontainers.image.version"] == image.rpartition(":")[2]
    left = workshop.run(image, "sh", "-c", "ls -A /run/secrets /uv /build 2>/dev/null || true")
    assert left in ("", "/run/secrets:"), left
    assert "index" not in json.dumps(described["config"]["Env"])


@pytest.mark.usefixtures("workshop")
def test_failed_builds(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    dockerfile = tmp_path / "Dockerfile"

    def fail(text: str) -> ImageError:
        dockerfile.write_text(text)
        with pytest.raises(ImageError) as raised:
            build_image(ImageConfig(builder="buildah"), tmp_path, os.environ)
        return raised.value

    broken = fail(f"FROM {BASE}\nRUN echo 'error: train.py has no main' && false\n")
    first = broken.message.splitlines()[0]
    assert first == "buildah cannot build the image: error: train.py has no main"
    assert broken.hint.startswith("its last lines say why")
    assert "COPY missing.py" in fail(f"FROM {BASE}\nCOPY missing.py /\n").message


@pytest.mark.usefixtures("workshop")
def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY blob /\n")
    (tmp_path / "blob").write_bytes(bytes(8 * MEBIBYTE))
    with small_disk(tmp_path / "disk", 4) as disk:
        storage = tmp_path / "storage.conf"
        places = f'graphroot = "{disk.folder}/images"\nrunroot = "{disk.folder}/run"\n'
        storage.write_text(f'[storage]\ndriver = "vfs"\n{places}')
        monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(storage))
        with pytest.raises(ImageError, match="no space left on device") as raised:
            build_image(ImageConfig(builder="buildah"), tmp_path, os.environ)
    assert raised.value.hint.startswith("free some: docker system prune")


@pytest.mark.usefixtures("pushed")
def test_carried_to_a_cluster_without_any_other_registry(
    cluster: Cluster,
    namespace: str,
    project: Path,
    settings: ImageConfig,
    tmp_path: Path,
) -> None:
    saved = save_image(settings, project, tmp_path / "trainer.tar", os.environ)
    with serve_registry(tmp_path / "site", cluster.host) as site:
        there = ImageConfig(repository=f"{site.address}/site/trainer")
        loaded = load_image(saved.path, there, site.environment)
        assert loaded.reference == f"{there.repository}@{saved.digest}"
        assert loaded.uploaded_bytes == loaded.size_bytes
        assert load_image(saved.path, there, site.environment).uploaded_bytes == 0

        trust_registry(cluster, site)
        make_pull_secret(cluster, namespace, site)
        command = ["python3", "-c", "import deployer, os; print(deployer.__file__, os.getuid())"]
        pod = build_pod("trainer", command)
        pod["spec"]["containers"][0]["image"] = loaded.reference
        pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] = True
        pod["spec"]["imagePullSecrets"] = [{"name": PULL_SECRET}]
        cluster.create(pod, namespace)
        cluster.wait_for("pod/trainer", "jsonpath=.status.phase=Succeeded", namespace)
    log = cluster.kubectl("logs", "trainer", "-n", namespace)
    assert log == "/opt/code/deployer/__init__.py 1000\n"
    found = cluster.kubectl("get", "pod", "trainer", "-n", namespace, "-o", "json")
    assert json.loads(found)["status"]["containerStatuses"][0]["imageID"] == loaded.reference
