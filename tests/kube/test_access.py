"""Which user a kubeconfig means, and what is said of one that means none; contacts nothing."""

from __future__ import annotations

import datetime
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from kubernetes.client.exceptions import ApiException  # noqa: TID251 - what the client raises

from deployer.agent.transport import build_context
from deployer.config.credentials import drop_session
from deployer.errors import ConfigError, KubeError
from deployer.kube.access import Access, load_access
from deployer.kube.client import Kube
from deployer.kube.failures import translate_error
from deployer.kube.login import ApiCredentials
from deployer.kube.objects import POD

NEVER = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
LONG_AGO = datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC)
ROLE = "arn:aws:sts::111122223333:assumed-role/trainers"
AUTHORITY, STRANGER = trustme.CA(), trustme.CA()


def read(
    folder: Path, user: dict[str, Any], server: str = "https://127.0.0.1:9", **changes: Any
) -> Access:
    """Load a kubeconfig with one cluster and this user."""
    ca = folder.resolve() / "ca.crt"
    AUTHORITY.cert_pem.write_to_path(ca)
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [
            {"name": "c", "cluster": {"server": server, "certificate-authority": str(ca)}}
        ],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        **changes,
    }
    return read_text(folder, yaml.safe_dump(content))


def read_text(folder: Path, text: str) -> Access:
    file = folder / "kubeconfig"
    file.write_text(text)
    return load_access(None, None, {**os.environ, "KUBECONFIG": str(file)})


def build_plugin(command: str) -> dict[str, Any]:
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": command, "interactiveMode": "Never"}}


def test_a_user_is_impersonated(tmp_path: Path) -> None:
    access = read(tmp_path, {"token": "t", "as": "ann"})
    assert access.client.default_headers["Impersonate-User"] == "ann"


def test_a_token_file_may_end_its_line(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n")
    access = read(tmp_path, {"tokenFile": str(tmp_path / "token")})
    assert access.client.default_headers["Authorization"] == "Bearer abc"


@pytest.mark.parametrize("key", ["as-groups", "as-uid", "as-user-extra"])
def test_what_cannot_be_impersonated_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} is not supported") as caught:
        read(tmp_path, {"token": "t", "as": "ann", key: ["x"]})
    assert caught.value.hint == f"leave {key} out, or use that user's own token"


def test_a_missing_plugin_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"the credential plugin .*gone-auth-plugin is not"
    ) as found:
        read(tmp_path, build_plugin("gone-auth-plugin"))
    assert found.value.hint == "install gone-auth-plugin, and check that it is on the PATH"


def test_a_plugin_without_an_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="false gave no credentials"):
        read(tmp_path, build_plugin("false"))


def test_a_broken_kubeconfig_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not valid YAML"):
        read_text(tmp_path, "a: [")


@pytest.mark.parametrize(
    ("current", "said"),
    [
        ("", "kubeconfig: no current context is set"),
        ("gone", "kubeconfig: has no context gone, which is its current one"),
    ],
)
def test_a_kubeconfig_without_its_current_context(tmp_path: Path, current: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, {"token": "t"}, **{"current-context": current})
    assert caught.value.message == f"{tmp_path}/{said}"
    assert caught.value.hint == "kubectl config use-context NAME, one of: here"


@pytest.mark.parametrize(
    ("user", "renewal"),
    [
        (
            {"token": "t"},
            "ask the provider of kubeconfig for a new one: the server refuses its token",
        ),
        (
            {"client-certificate": "ca.crt", "client-key": "key.pem"},
            "check if it has expired: openssl x509 -noout -enddate -in ca.crt",
        ),
        (
            {"client-certificate-data": ""},
            "ask the provider of kubeconfig for a new one: the server refuses its certificate",
        ),
    ],
)
def test_a_user_whom_the_server_does_not_know_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: dict[str, str], renewal: str
) -> None:
    monkeypatch.chdir(tmp_path)
    AUTHORITY.private_key_pem.write_to_path("key.pem")
    kube = Kube(read(Path(), user))
    error = ApiException(status=401, reason="Unauthorized")
    assert translate_error(error, kube.attempt("list", POD, "")).hint == renewal


@contextmanager
def serve_tls(certificate: trustme.LeafCert) -> Iterator[str]:
    """Serve nothing but a handshake with this certificate."""
    settings = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(settings)

    def answer() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                with suppress(OSError):
                    settings.wrap_socket(client, server_side=True)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=answer, daemon=True).start()
        yield f"https://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("certificate", "said", "hint"),
    [
        (
            AUTHORITY.issue_cert("127.0.0.1", not_before=NEVER, not_after=LONG_AGO),
            "certificate has expired",
            "ask an administrator to renew the API server's certificate",
        ),
        (STRANGER.issue_cert("127.0.0.1"), "unable to get local issuer", "get a new kubeconfig"),
        (AUTHORITY.issue_cert("k8s.example"), "mismatch", "get a new kubeconfig"),
    ],
    ids=["expired", "another authority", "another address"],
)
def test_a_certificate_that_is_not_trusted(
    tmp_path: Path, certificate: trustme.LeafCert, said: str, hint: str
) -> None:
    with serve_tls(certificate) as server:
        kube = Kube(read(tmp_path, {"token": "t"}, server), sleep=lambda _: None)
        with pytest.raises(KubeError, match=f"its certificate is not trusted: .*{said}") as caught:
            kube.list_objects(POD)
    assert hint in caught.value.hint


def test_an_authority_without_key_identifiers_is_trusted_as_by_kubectl(tmp_path: Path) -> None:
    """Python 3.13 refuses it by a flag; EKS clusters from 1.16 or before have such ones."""
    access = read(tmp_path, {"token": "t"})
    assert access.connection.context
    assert not access.connection.context.verify_flags & ssl.VERIFY_X509_STRICT
    assert access.connection.context.verify_mode == ssl.CERT_REQUIRED
    assert not build_context({}).verify_flags & ssl.VERIFY_X509_STRICT


@pytest.mark.parametrize(
    ("user", "name"),
    [
        (f"{ROLE}/botocore-session-1764374400", ROLE),
        (f"{ROLE}/ann@example.com", f"{ROLE}/ann@example.com"),
        ("arn:aws-cn:sts::1:assumed-role/r/i-123", "arn:aws-cn:sts::1:assumed-role/r"),
        ("ann-2", "ann-2"),
    ],
)
def test_an_owner_is_the_same_tomorrow(user: str, name: str) -> None:
    assert drop_session(user) == name


def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="client-key must be specified"):
        read(tmp_path, {"client-certificate": str(tmp_path / "ca.crt")})


def test_a_plugin_of_an_older_interface_is_refused(tmp_path: Path) -> None:
    plugin = build_plugin("true")
    plugin["exec"]["apiVersion"] = "client.authentication.k8s.io/v1alpha1"
    with pytest.raises(ConfigError, match=r"exec plugin: invalid apiVersion \"client"):
        read(tmp_path, plugin)


def test_a_plugin_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deployer.kube.login.PLUGIN_SECONDS", 0.5)
    plugin = tmp_path / "plugin"
    plugin.write_text("#!/bin/sh\nsleep 1000 &\nsleep 1000\n")
    plugin.chmod(0o755)
    with pytest.raises(ConfigError, match="plugin gave no credentials in 0 s and was killed"):
        read(tmp_path, build_plugin("./plugin"))


def test_a_token_that_cannot_be_sent_is_not_called_an_answer(tmp_path: Path) -> None:
    with serve_tls(AUTHORITY.issue_cert("127.0.0.1")) as server:
        kube = Kube(read(tmp_path, {"token": "secret-a\nsecret-b"}, server))
        with pytest.raises(KubeError, match="the client cannot send it") as caught:
            kube.list_objects(POD)
    assert "secret" not in f"{caught.value} {caught.value.hint}"


def get_authorization(access: Access) -> str | None:
    return access.client.default_headers.get("Authorization")


def test_nothing_is_sent_that_anybody_on_the_way_could_read(tmp_path: Path) -> None:
    assert get_authorization(read(tmp_path, {"token": "t"}, "http://k8s.example")) is None
    assert get_authorization(read(tmp_path, {"token": "t"}, "HTTPS://k8s.example")) == "Bearer t"
    access = read(tmp_path, {"token": "t"}, "k8s.example")  # with an authority
    assert (access.server, get_authorization(access)) == ("https://k8s.example", "Bearer t")


@pytest.mark.parametrize(
    ("cluster", "user", "said"),
    [
        ({"insecure-skip-tls-verify": "false"}, {}, "string into Go struct field .* of type bool"),
        ({"insecure-skip-tls-verify": True}, {}, "with the insecure flag is not allowed"),
        ({"certificate-authority-data": "QQ=="}, {}, "are both specified for c"),
        ({"certificate-authority": None, "certificate-authority-data": "!!!!"}, {}, "not base64"),
        ({"certificate-authority": "text"}, {}, "certificate-authority holds no certificate"),
        ({"server": "https://k8s.example:99999"}, {}, "no server address"),
        ({"server": "https://[::1"}, {}, "no server address"),
        ({"server": "https://ann:pw@k8s.example"}, {}, "must not contain a login"),
        ({"proxy-url": "ftp://p"}, {}, 'unsupported scheme "ftp"'),
        ({}, {"token": 12345}, "cannot unmarshal number into Go struct field AuthInfo.users.user"),
        ({}, {"tokenFile": "empty"}, "tokenFile is empty"),
        ({}, {"exec": "foo"}, "cannot unmarshal string into Go struct field AuthInfo.users.user"),
        ({}, {"exec": {"args": "--foo"}}, "cannot unmarshal string"),
        ({}, {"exec": {"args": [1]}}, "cannot unmarshal number"),
        ({}, {"auth-provider": {"name": "oidc"}}, "auth-provider oidc is not supported"),
    ],
)
def test_what_kubectl_refuses_is_refused(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], said: str
) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("no certificate")
    AUTHORITY.cert_pem.write_to_path(tmp_path / "ca.crt")
    own = {"server": "https://k8s.example", "certificate-authority": "ca.crt", **cluster}
    with pytest.raises(ConfigError, match=said) as caught:
        read(tmp_path, {"token": "t"} | user, clusters=[{"name": "c", "cluster": own}])
    assert "pw" not in str(caught.value)


def test_a_token_file_counts_before_a_token_and_lasts_as_long_as_it_can(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("newer")
    access = read(tmp_path, {"token": "older", "tokenFile": "token"})
    assert get_authorization(access) == "Bearer newer"
    for broken in (lambda: file.write_text(""), file.unlink):
        broken()
        assert not access.connection.refuse(ApiCredentials("Bearer newer"))
        assert get_authorization(access) == "Bearer newer"
    file.write_text("newest")
    assert access.connection.refuse(ApiCredentials("Bearer newer"))
    # Whoever was refused with older credentials than these tries again.
    assert access.connection.refuse(ApiCredentials("Bearer newer"))


def write_plugin(folder: Path, text: str) -> dict[str, Any]:
    plugin = folder / "plugin"
    plugin.write_text(text)
    plugin.chmod(0o755)
    return build_plugin("./plugin")


ANSWER = """echo '{"apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "t"}}'"""


def test_a_plugin_is_not_run_for_who_has_a_certificate(tmp_path: Path) -> None:
    plugin = write_plugin(tmp_path, f"#!/bin/sh\ntouch {tmp_path}/ran\n{ANSWER}\n")
    leaf = AUTHORITY.issue_cert("nobody.invalid")
    leaf.cert_chain_pems[0].write_to_path(tmp_path / "me.crt")
    leaf.private_key_pem.write_to_path(tmp_path / "me.key")
    pair = {"client-certificate": "me.crt", "client-key": "me.key"}
    assert get_authorization(read(tmp_path, plugin | pair)) is None
    assert not (tmp_path / "ran").exists()


def test_a_plugin_may_leave_a_process_behind(tmp_path: Path) -> None:
    plugin = write_plugin(tmp_path, f"#!/bin/sh\n{ANSWER}\nsleep 5 &\n")
    plugin["exec"]["env"] = [{"name": "A"}]
    begun = time.monotonic()
    assert get_authorization(read(tmp_path, plugin)) == "Bearer t"
    assert time.monotonic() - begun < 4


def test_a_plugin_that_is_no_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the credential plugin .*plugin cannot be run"):
        read(tmp_path, write_plugin(tmp_path, "no program"))


def test_an_encrypted_key_is_refused_and_not_asked_for(tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    locked = serialization.BestAvailableEncryption(b"secret")
    kinds = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    (tmp_path / "me.key").write_bytes(key.private_bytes(*kinds, locked))
    AUTHORITY.cert_pem.write_to_path(tmp_path / "me.crt")
    with pytest.raises(ConfigError, match="a certificate cannot be used"):
        read(tmp_path, {"client-certificate": "me.crt", "client-key": "me.key"})


def test_an_authority_may_have_comments_and_a_proxy_no_scheme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"# F\u0151tan\u00fas\u00edtv\u00e1ny\n{AUTHORITY.cert_pem.bytes().decode()}"
    (tmp_path / "own.crt").write_text(text)
    own = {"server": "https://k8s.example", "certificate-authority": "own.crt"}
    monkeypatch.setenv("HTTPS_PROXY", "127.0.0.1:28128")
    access = read(tmp_path, {"token": "t"}, clusters=[{"name": "c", "cluster": own}])
    assert access.connection.target.proxy == "http://127.0.0.1:28128"


def test_json_may_have_tabs_and_yaml_more_documents(tmp_path: Path) -> None:
    entries = {
        "clusters": [{"name": "c", "cluster": {"server": "https://k8s.example"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c"}}],
        "current-context": "here",
    }
    assert read_text(tmp_path, json.dumps(entries, indent="\t")).context == "here"
    assert read_text(tmp_path, f"{yaml.safe_dump(entries)}---\n").context == "here"
