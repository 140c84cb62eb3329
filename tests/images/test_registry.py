"""A real registry with TLS and a password: asked, refused by, and loaded into from files."""

from __future__ import annotations

import io
import json
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests

from deployer.config.image import ImageConfig
from deployer.config.image_reference import Repository, parse_repository
from deployer.errors import ConfigError, ImageError
from deployer.images.context import read_inputs
from deployer.images.failures import RegistryLogin, build_refusal
from deployer.images.image import INPUTS_LABEL, find_pushed, push_image
from deployer.images.image_file import load_image, read_archive
from deployer.images.registry import Registry, RegistryUser
from tests.cluster.control_plane.image import build_image
from tests.images.registry import PASSWORD, USER, RunningRegistry, serve_registry

# Debian's docker-registry is downloaded once.
pytestmark = [pytest.mark.slow, pytest.mark.kube]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with serve_registry(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


def _write_archive(
    path: Path,
    name: str = "registry.example/team/trainer:abc",
    labels: dict[str, str] | None = None,
) -> Path:
    """Write an image as `docker save` did before version 25."""
    busybox = path.with_name("busybox")
    busybox.write_bytes(b"#!/bin/true\n" * 10_000)
    build_image(path, busybox, [name], labels=labels)
    return path


def _settings(registry: RunningRegistry, name: str = "team/trainer") -> ImageConfig:
    return ImageConfig(repository=f"{registry.address}/{name}")


def test_load(running: RunningRegistry, tmp_path: Path, told: list[str]) -> None:
    file = _write_archive(tmp_path / "image.tar")
    settings, environment = _settings(running), running.environment
    loaded = load_image(file, settings, environment)
    archive = read_archive(file)
    assert loaded.reference == f"{settings.repository}@{archive.digest}"
    assert loaded.uploaded_bytes == loaded.size_bytes == archive.size_bytes > 100_000
    assert (
        told[-1]
        == f"loaded {settings.repository}:abc: {round(loaded.size_bytes / 1000)} kB uploaded"
    )

    repository = parse_repository(settings.require_repository())
    login = RegistryUser(USER, PASSWORD, "the test")
    there = Registry(repository, login, str(running.ca)).get_manifest("abc")
    assert there is not None
    assert there.digest == archive.digest

    again = load_image(file, settings, environment)
    assert (again.reference, again.uploaded_bytes) == (loaded.reference, 0)
    assert told[-1] == f"{settings.repository}:abc: already in the registry"
    assert PASSWORD not in "".join(told)


def test_token_server(tmp_path: Path) -> None:
    file = _write_archive(tmp_path / "image.tar")
    with serve_registry(tmp_path / "registry", tokens=True) as registry:
        settings = _settings(registry)
        loaded = load_image(file, settings, registry.environment)
        assert loaded.uploaded_bytes == loaded.size_bytes
        wrong = {**registry.environment, "DEPLOYER_REGISTRY_PASSWORD": "wrong"}
        with pytest.raises(ImageError, match=r"cannot log in to .* as carol") as raised:
            load_image(file, settings, wrong)
        assert raised.value.message.endswith("401 Unauthorized")


def test_the_login_goes_to_no_host_that_an_answer_names(tmp_path: Path) -> None:
    asked: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append((self.command, self.headers["Authorization"]))
            self.send_response(401)
            realm = f"http://127.0.0.1:{self.server.server_address[1]}/token"
            self.send_header("WWW-Authenticate", f'Bearer realm="{realm}"')
            self.end_headers()

        do_GET = do_DELETE = do_PUT

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        other = f"127.0.0.1:{server.server_port}"
        with serve_registry(tmp_path / "registry", uploads_at=f"http://{other}") as registry:
            settings, given = _settings(registry), registry.environment
            file = _write_archive(tmp_path / "image.tar")
            with pytest.raises(ImageError) as raised:
                load_image(file, settings, given)
        server.shutdown()
    assert asked == [("PUT", None)]
    assert raised.value.message.endswith(f"redirects to {other}, which requires a login")
    assert f"repository: {other}/team/trainer" in raised.value.hint


def test_refusals(running: RunningRegistry, tmp_path: Path) -> None:
    file = _write_archive(tmp_path / "image.tar")
    settings, given = _settings(running), running.environment
    host = running.address

    def refuse(environment: dict[str, str], settings: ImageConfig = settings) -> ImageError:
        with pytest.raises(ImageError) as raised:
            load_image(file, settings, {"HOME": str(tmp_path), **environment})
        assert PASSWORD not in f"{raised.value} {raised.value.hint}"
        return raised.value

    wrong = refuse({**given, "DEPLOYER_REGISTRY_PASSWORD": "wrong"})
    assert wrong.message.startswith(f"cannot read from {host}/team/trainer as carol (from DEPLOY")
    assert wrong.message.endswith("authentication required (401 Unauthorized)")
    assert f"docker login {host}" in wrong.hint
    nobody = refuse({"DEPLOYER_REGISTRY_CA": str(running.ca)})
    assert "without a login" in nobody.message

    stranger = refuse({**given, "DEPLOYER_REGISTRY_CA": ""})
    assert stranger.message.startswith(f"{host}: its certificate is not trusted: ")
    assert "export DEPLOYER_REGISTRY_CA=FILE" in stranger.hint
    plain = refuse(given, replace(settings, plain_http=True))
    assert plain.hint == "remove `plain_http`: the registry uses TLS"
    closed = refuse(given, replace(settings, repository="127.0.0.1:9/x"))
    assert closed.message == "cannot reach the registry 127.0.0.1:9: Connection refused"
    with pytest.raises(ConfigError, match=r"DEPLOYER_REGISTRY_CA: .+ not found"):
        load_image(file, settings, {**given, "DEPLOYER_REGISTRY_CA": "nowhere"})


def test_no_tls_where_some_is_expected(running: RunningRegistry, tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        settings = ImageConfig(repository=f"127.0.0.1:{server.server_port}/x")
        file = _write_archive(tmp_path / "image.tar")
        with pytest.raises(ImageError, match="does not use TLS") as raised:
            load_image(file, settings, running.environment)
        server.shutdown()
    assert "plain_http: true" in raised.value.hint


def test_find_without_a_tool(running: RunningRegistry, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    settings = _settings(running, "never/pushed")
    assert find_pushed(settings, tmp_path, running.environment) is None


def test_an_image_under_our_tag_is_ours_only_by_its_label(
    running: RunningRegistry, tmp_path: Path
) -> None:
    """Else agents would run whatever somebody has put there."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "Dockerfile").write_text("FROM scratch\n")
    settings, given = _settings(running, "foreign/trainer"), running.environment
    tag = read_inputs(settings, project).tag
    name = f"{settings.repository}:{tag}"
    load_image(_write_archive(tmp_path / "a.tar", name), settings, given)
    for find in (find_pushed, push_image):
        with pytest.raises(ImageError, match=f"{tag} in the registry is not ours") as raised:
            find(settings, project, given)
        assert "--rebuild" in raised.value.hint
    ours = _write_archive(tmp_path / "b.tar", name, {INPUTS_LABEL: tag})
    loaded = load_image(ours, settings, given)
    assert find_pushed(settings, project, given) == loaded.reference
    assert push_image(settings, project, given) == loaded.reference
    nowhere = {**given, "PATH": str(tmp_path)}  # where nothing builds images
    with pytest.raises(ImageError, match="no working image builder found"):
        push_image(settings, project, nowhere, rebuild=True)


def test_files_that_are_no_images(tmp_path: Path) -> None:
    good = _write_archive(tmp_path / "image.tar")
    hint = "deployer image save FILE writes one"

    def refuse(content: bytes) -> str:
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(ImageError) as raised:
            read_archive(tmp_path / "bad")
        assert raised.value.hint.startswith(hint)
        return raised.value.message.removeprefix(str(tmp_path / "bad"))

    def pack(**members: str) -> bytes:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for name, text in members.items():
                info = tarfile.TarInfo(name.replace("_", "."))
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text.encode()))
        return packed.getvalue()

    assert (
        refuse(b"PK not a tar file")
        == " is not an image archive: file could not be opened successfully"
    )
    assert refuse(good.read_bytes()[:40_000]).startswith(" is not an image archive: unexpected")
    assert refuse(pack(notes="hello")) == " is a tar file without an image"
    assert refuse(pack(index_json='{"manifests": []}')).startswith(": a part of the image is miss")
    layout = json.dumps({"manifests": [{"digest": "sha256:00"}]})
    assert "keyword" not in refuse(pack(index_json=layout))
    with pytest.raises(ImageError, match="no such file"):
        read_archive(tmp_path / "nothing")


def test_what_google_refuses() -> None:
    """Artifact Registry's own answers, as its documentation and its users show them."""
    repository = Repository("europe-west4-docker.pkg.dev", "my-project/sweeps/trainer")
    login = RegistryLogin(repository, "Google's application credentials", "oauth2accesstoken")

    def answer(status: int, reason: str, code: str, message: str) -> ImageError:
        response = requests.Response()
        response.status_code, response.reason = status, reason
        body = json.dumps({"errors": [{"code": code, "message": message}]})
        response.raw = io.BytesIO(body.encode())
        return build_refusal(response, "push to", login)

    unknown = answer(404, "Not Found", "NAME_UNKNOWN", 'Repository "sweeps" not found')
    assert unknown.message.endswith(': Repository "sweeps" not found (404 Not Found)')
    assert unknown.hint == (
        "gcloud artifacts repositories create sweeps --repository-format=docker "
        "--location=europe-west4 --project=my-project"
    )
    denied = answer(403, "Forbidden", "DENIED", "Permission 'uploadArtifacts' denied")
    assert "roles/artifactregistry.writer" in denied.hint
    assert "--location=europe-west4" in denied.hint
    stale = answer(401, "Unauthorized", "UNAUTHORIZED", "failed authentication")
    assert stale.hint == "gcloud auth application-default login"
    busy = answer(503, "Service Unavailable", "UNAVAILABLE", "try again")
    assert busy.hint == "type the command again in a minute"
