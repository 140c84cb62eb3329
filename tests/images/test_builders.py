"""Which tool is chosen, what it is told, and what its failures become."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from deployer.config.image import ImageConfig
from deployer.errors import ImageError
from deployer.images.builders import Build, LoginFiles, choose_builder
from deployer.images.failures import build_tool_failure
from deployer.images.image import build_image
from deployer.images.registry import RegistryUser, write_auth_file
from deployer.text import format_bytes

DEAD_DOCKER = """#!/bin/sh
echo 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?' >&2
exit 1
"""
# Says yes to everything and writes down how it was called.
RECORDER = """#!/bin/sh
echo "$0 $@" >> "{log}"
[ -z "$DOCKER_CONFIG" ] || cat "$DOCKER_CONFIG/config.json" >> "{log}.config"
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is all of PATH but the shell's own."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("cat", "sh"):
        (folder / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(folder))
    return folder


def _write_program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def test_nothing_builds(programs: Path) -> None:
    with pytest.raises(ImageError) as raised:
        choose_builder(None, os.environ)
    assert raised.value.message == (
        "no working image builder found "
        "(docker: not installed; podman: not installed; buildah: not installed)"
    )
    assert raised.value.hint.startswith("install docker, podman or buildah: ")
    _write_program(programs, "docker", DEAD_DOCKER)
    with pytest.raises(ImageError, match="docker: Cannot connect to the Docker daemon"):
        choose_builder(None, os.environ)
    with pytest.raises(ImageError, match="docker does not work: Cannot connect") as raised:
        choose_builder("docker", os.environ)
    assert raised.value.hint == "install or start docker, or remove `builder:` from deployer.yaml"


def test_the_first_that_works(programs: Path) -> None:
    log = programs.parent / "log"
    _write_program(programs, "docker", DEAD_DOCKER)
    _write_program(programs, "buildah", RECORDER.format(log=log))
    assert choose_builder(None, os.environ).name == "buildah"
    _write_program(programs, "podman", RECORDER.format(log=log))
    assert choose_builder(None, os.environ).name == "podman"
    assert choose_builder("buildah", os.environ).name == "buildah"


@pytest.mark.parametrize("name", ["docker", "podman", "buildah"])
def test_no_password_is_an_argument(programs: Path, name: str) -> None:
    log = programs.parent / "log"
    _write_program(programs, name, RECORDER.format(log=log))
    builder = choose_builder(name, os.environ)
    login = RegistryUser("carol", "s3cret", "the test")
    with write_auth_file(login, "r.example", {"HOME": str(programs)}) as folder:
        builder.push("r.example/x:1", LoginFiles(folder, programs), "r.example")
    called = log.read_text().splitlines()[-1]
    assert "push" in called
    assert "s3cret" not in called
    assert called.endswith("r.example/x:1")
    if name == "docker":
        assert "r.example" in Path(f"{log}.config").read_text()
    else:
        assert f"--authfile={folder}/config.json --cert-dir={programs}" in called


def test_how_a_build_is_told(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    log = tmp_path / "log"
    # An image is only there once it was built.
    missing = '[ "$2" != inspect ] || [ -e {log}.built ] || exit 1\n'
    size = '[ "$1" != build ] || : > {log}.built\n[ "$3" != --format ] || {{ echo 4000; exit; }}\n'
    labels = '[ "$2" != inspect ] || cat {log}.labels\n'
    script = RECORDER + missing + size + labels
    _write_program(programs, "docker", script.format(log=log))
    project = tmp_path / "project"
    project.mkdir()
    (project / "Dockerfile").write_text("FROM scratch\nRUN --mount=type=secret,id=index true\n")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://user:hidden@index.example/simple")
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/authorities.pem")
    settings = ImageConfig(build_args={"BASE": "python:3"}, builder="docker")
    reference, builder = build_image(settings, project, os.environ)
    assert builder.name == "docker"
    assert told[-1].startswith(f"built {reference}: 4 kB, ")
    build = next(line for line in log.read_text().splitlines() if " build " in line)
    assert "--platform linux/amd64 --build-arg=BASE=python:3 " in build
    assert "--secret=id=ca,src=/etc/authorities.pem" in build
    assert "--secret=id=index,src=/" in build
    assert "hidden" not in log.read_text()
    assert "--pull" not in build
    assert "--no-cache" not in build
    tag = reference.rpartition(":")[2]
    config = {"Labels": {"org.opencontainers.image.version": tag}}
    Path(f"{log}.labels").write_text(json.dumps([{"Config": config}]))
    build_image(settings, project, os.environ)
    assert told[-1] == f"{reference}: already built"
    again = Build(reference, project / "Dockerfile", project, "linux/amd64", {}, {}, anew=True)
    builder.build(again)
    assert "--no-cache --pull " in log.read_text()
    Path(f"{log}.labels").write_text(json.dumps([{"Config": {"Labels": None}}]))
    told.clear()
    build_image(settings, project, os.environ)
    assert told[0] == f"{reference} exists and is not ours: building it again"


FAILURES = (
    ("Error: writing blob: write /x: no space left on device", "free some: docker system prune"),
    ("Error: pinging: x509: certificate signed by unknown authority", "for the package index: exp"),
    ("ERROR: failed: toomanyrequests: You have reached your pull rate limit", "docker login"),
    ("Error: initializing source docker://x: manifest unknown", "check that the base image exists"),
    ("error: Failed to fetch: `https://pypi.org/simple/uv/`", "check the connection to the pack"),
    ("Error: cannot set up namespace: newuidmap: not found", "choose another tool (`image: {b"),
    ("unauthorized: authentication required", "export DEPLOYER_REGISTRY_USER=… DEPLOYER_REG"),
    (
        "Error: pushing: dial tcp 10.0.0.9:443: connect: connection refused",
        "check that the registry is up",
    ),
    ("exec /bin/sh: exec format error", "`platform:` in the section `image:` is not this mach"),
    ("make: *** [all] Error 2", "its last lines say why"),
)


@pytest.mark.parametrize(("line", "hint"), FAILURES)
def test_failures(line: str, hint: str) -> None:
    error = build_tool_failure("buildah cannot build the image", ["STEP 1/2: FROM x", line, ""])
    assert error.message.splitlines()[0] == f"buildah cannot build the image: {line}"
    assert error.message.splitlines()[1] == "  STEP 1/2: FROM x"
    assert error.hint.startswith(hint)


def test_the_reason_comes_before_the_wrapping() -> None:
    lines = [
        "STEP 3/3: RUN uv pip install",
        "error: Failed to parse `pyproject.toml`",
        'Error: building at STEP "RUN uv pip install": while running runtime: exit status 2',
    ]
    error = build_tool_failure("buildah cannot build the image", lines)
    assert error.message.splitlines()[0].endswith("error: Failed to parse `pyproject.toml`")
    docker = build_tool_failure("x", ["x509: unknown authority"], "r.example", docker=True)
    assert docker.hint.startswith("docker reads /etc/docker/certs.d/r.example/ca.crt")


def test_sizes() -> None:
    sizes = (0, 812_400, 1_000_000, 29_200_000, 3_412_000_000)
    assert [format_bytes(size) for size in sizes] == [
        "1 kB",
        "812 kB",
        "1 MB",
        "29.2 MB",
        "3.41 GB",
    ]
