"""Logins: where they are found, and that no password is ever seen."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from deployer.config.image_reference import Repository
from deployer.errors import CloudError, ImageError
from deployer.images.registry import RegistryUser, find_credentials, write_auth_file
from tests.gke.credentials import Account

PLACE = Repository("registry.example:5000", "team/trainer")
GOOGLE = Repository("europe-west4-docker.pkg.dev", "project/sweeps/trainer")


def _encode(pair: str) -> str:
    return base64.b64encode(pair.encode()).decode()


def _write_login(folder: Path, **content: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(content))
    return folder / "config.json"


def test_order(tmp_path: Path) -> None:
    nothing = {"HOME": str(tmp_path)}
    assert not find_credentials(PLACE, nothing)
    path = _write_login(tmp_path / ".docker", auths={PLACE.host: {"auth": _encode("dora:a:b")}})
    assert find_credentials(PLACE, nothing) == RegistryUser("dora", "a:b", str(path))
    assert not find_credentials(Repository("other.example", "x"), nothing)

    given = {**nothing, "DEPLOYER_REGISTRY_USER": "carol", "DEPLOYER_REGISTRY_PASSWORD": "s3cret"}
    found = find_credentials(PLACE, given)
    assert (found.user, found.password) == ("carol", "s3cret")
    assert "s3cret" not in repr(found)

    token = find_credentials(PLACE, {**nothing, "DEPLOYER_REGISTRY_TOKEN": "t0ken"})
    assert (token.user, token.password) == ("oauth2accesstoken", "t0ken")
    robot = find_credentials(PLACE, {**given, "DEPLOYER_REGISTRY_TOKEN": "t0ken"})
    assert (robot.user, robot.password) == ("carol", "t0ken")


def test_half_a_login() -> None:
    with pytest.raises(ImageError) as raised:
        find_credentials(PLACE, {"DEPLOYER_REGISTRY_USER": "carol"})
    assert raised.value.message == (
        "DEPLOYER_REGISTRY_USER is set and DEPLOYER_REGISTRY_PASSWORD is not"
    )
    assert raised.value.hint == "export DEPLOYER_REGISTRY_PASSWORD=…"


def test_other_places_of_a_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    podman = tmp_path / "auth.json"
    podman.write_text(
        json.dumps({"auths": {"docker.io": {}, PLACE.host: {"auth": _encode("a:b")}}})
    )
    found = find_credentials(PLACE, {"HOME": str(tmp_path), "REGISTRY_AUTH_FILE": str(podman)})
    assert (found.user, found.source) == ("a", str(podman))
    hub = Repository("docker.io", "someone/x")
    key = "https://index.docker.io/v1/"
    _write_login(tmp_path / "config", auths={key: {"auth": _encode("e:f")}})
    assert find_credentials(hub, {"DOCKER_CONFIG": str(tmp_path / "config")}).user == "e"

    helper = tmp_path / "bin/docker-credential-vault"
    helper.parent.mkdir()
    answer = '{"ServerURL": "x", "Username": "from-vault", "Secret": "deep"}'
    helper.write_text(f"#!/bin/sh\nread host\n[ $host = {PLACE.host} ] && echo '{answer}'\n")
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{helper.parent}:/usr/bin:/bin")
    _write_login(tmp_path / "vault", credsStore="vault")
    vault = {"DOCKER_CONFIG": str(tmp_path / "vault")}
    assert find_credentials(PLACE, vault).password == "deep"
    assert not find_credentials(hub, vault)


def test_a_login_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ImageError, match=r"config\.json: cannot be read") as raised:
        find_credentials(PLACE, {"DOCKER_CONFIG": str(tmp_path)})
    assert raised.value.hint == "docker login writes it"


def test_nobody_to_google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))
    with pytest.raises(CloudError, match=r"missing\.json was not found") as raised:
        find_credentials(GOOGLE, {"HOME": str(tmp_path)})
    assert "gcloud auth application-default login" in raised.value.hint
    _write_login(tmp_path / ".docker", auths={GOOGLE.host: {"auth": _encode("_json_key:{}")}})
    assert find_credentials(GOOGLE, {"HOME": str(tmp_path)}).user == "_json_key"


def test_token_of_google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"access_token": "ya29.x", "expires_in": 3600}')

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        account = tmp_path / "account.json"
        Account("project").write_json(account, f"http://127.0.0.1:{server.server_port}/token")
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
        found = find_credentials(GOOGLE, {"HOME": str(tmp_path)})
        server.shutdown()
    assert (found.user, found.password) == ("oauth2accesstoken", "ya29.x")


def test_file_for_tools(tmp_path: Path) -> None:
    _write_login(tmp_path / ".docker", currentContext="colima", auths={"other": {"auth": "x"}})
    (tmp_path / ".docker/contexts").mkdir()
    login = RegistryUser("carol", "s3cret", "x")
    with write_auth_file(login, PLACE.host, {"HOME": str(tmp_path)}) as folder:
        file = folder / "config.json"
        assert (file.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
        content = json.loads(file.read_text())
        assert content["auths"] == {PLACE.host: {"auth": _encode("carol:s3cret")}}
        assert content["currentContext"] == "colima"
        assert (folder / "contexts").is_dir()
    assert not folder.exists()
    assert (tmp_path / ".docker/contexts").is_dir()
