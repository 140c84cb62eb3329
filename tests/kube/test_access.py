"""Which user a kubeconfig means, and what is said of one that means none; contacts nothing."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.errors import ConfigError, KubeError
from deployer.kube.access import Access, load_access
from deployer.kube.client import Kube
from deployer.kube.kinds import POD


def read(folder: Path, user: dict[str, Any], server: str = "https://127.0.0.1:9") -> Access:
    """Load a kubeconfig with one cluster and this user."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    return read_text(folder, yaml.safe_dump(content))


def read_text(folder: Path, text: str) -> Access:
    file = folder / "kubeconfig"
    file.write_text(text)
    return load_access(None, None, {"KUBECONFIG": str(file)})


def build_plugin(command: str) -> dict[str, Any]:
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": command, "interactiveMode": "Never"}}


def test_a_user_is_impersonated(tmp_path: Path) -> None:
    access = read(tmp_path, {"token": "t", "as": "ann"})
    assert access.client.default_headers["Impersonate-User"] == "ann"


def test_a_token_file_may_end_its_line(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n")
    access = read(tmp_path, {"tokenFile": str(tmp_path / "token")})
    [authorization] = access.client.configuration.auth_settings().values()
    assert authorization["value"] == "Bearer abc"


def test_a_token_that_cannot_be_sent_is_not_called_an_answer(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = f"http://127.0.0.1:{listening.getsockname()[1]}"
        kube = Kube(read(tmp_path, {"token": "secret-a\nsecret-b"}, server))
        with pytest.raises(KubeError, match="the client cannot send it") as caught:
            kube.list_objects(POD)
    assert "secret" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("key", ["as-groups", "as-uid", "as-user-extra"])
def test_what_cannot_be_impersonated_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} is not supported") as caught:
        read(tmp_path, {"token": "t", "as": "ann", key: ["x"]})
    assert caught.value.hint == f"leave {key} out, or use that user's own token"


def test_a_missing_plugin_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="gone-auth-plugin, which gives the credentials") as found:
        read(tmp_path, build_plugin("gone-auth-plugin"))
    assert found.value.hint == "install gone-auth-plugin, and see that it is on the PATH"


def test_a_plugin_without_an_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="false gave no credentials"):
        read(tmp_path, build_plugin("false"))


def test_a_broken_kubeconfig_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not YAML that can be read"):
        read_text(tmp_path, "a: [")
