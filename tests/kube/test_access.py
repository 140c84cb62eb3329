"""Which user a kubeconfig means, and what is said of one that means none; contacts nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.errors import ConfigError
from deployer.kube.access import Access, load_access


def read(folder: Path, user: dict[str, Any]) -> Access:
    """Load a kubeconfig with one cluster and this user."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}],
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
