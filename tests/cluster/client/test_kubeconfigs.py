"""Kubeconfigs in the forms that real tools write, with kubectl as the judge of each.

kubectl and ours must reach the same server as the same user, or refuse alike. The programs that
print credentials are stand-ins that print the test cluster's own, in the real ones' formats.
"""

from __future__ import annotations

import base64
import json
import os
import re
import string
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

import tests.outside
from deployer.errors import ConfigError, KubeError
from deployer.kube.access import load_access, open_websocket
from deployer.kube.client import Kube
from deployer.kube.objects import SELF_REVIEW
from tests.cluster.cluster import Cluster
from tests.cluster.tenants import make_account
from tests.outside.cloud import Proxies, run_loop
from tests.users_python import environment_with

pytestmark = pytest.mark.kube

FORMS = Path(tests.outside.__file__).with_name("kubeconfigs")
TOKENS = ("eks", "aks-kubelogin", "gke", "oidc-login", "rancher", "openshift", "token-file")
CERTIFICATES = ("k3s", "kind", "kubeadm", "minikube", "teleport", "pinniped")
# A stand-in for every program: prints what its file has, and counts its runs.
PROGRAM = """#!/bin/sh
echo run >> "$0.runs"
echo "$KUBERNETES_EXEC_INFO" > "$0.info"
[ -e "$0.says" ] && cat "$0.says" >&2
exec cat "$0.json"
"""


@dataclass
class Desk:
    """A folder with a kubeconfig of each form and the programs that they name."""

    cluster: Cluster
    folder: Path
    token: str
    values: Mapping[str, str]

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment in which the stand-ins are found first."""
        return {**os.environ, "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}

    def write(self, form: str, folder: str = "") -> Path:
        """Write the kubeconfig of a form."""
        text = string.Template((FORMS / f"{form}.yaml").read_text()).substitute(self.values)
        path = self.folder / folder / f"{form}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def write_program(
        self, name: str, status: Mapping[str, str], version: str = "v1beta1", says: str = ""
    ) -> Path:
        """Write a program that prints an ExecCredential with this status."""
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(PROGRAM)
        path.chmod(0o755)
        credential = {
            "kind": "ExecCredential",
            "apiVersion": f"client.authentication.k8s.io/{version}",
            "spec": {"interactive": False},
            "status": status,
        }
        (path.parent / f"{name}.json").write_text(json.dumps(credential))
        if says:
            (path.parent / f"{name}.says").write_text(says)
        return path

    def count_runs(self, name: str) -> int:
        """Return how often a program was run."""
        runs = self.folder / "bin" / f"{name}.runs"
        return len(runs.read_text().splitlines()) if runs.exists() else 0

    def ask_kubectl(self, files: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run kubectl with these kubeconfigs."""
        return subprocess.run(
            [str(self.cluster.programs["kubectl"]), *words],
            env={**self.environment, "KUBECONFIG": files},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def ask(self, files: str, context: str | None = None) -> Kube:
        """Return our client with these kubeconfigs."""
        return Kube(load_access(context, None, {**self.environment, "KUBECONFIG": files}))


def in_minutes(minutes: float) -> str:
    return (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def desk(cluster: Cluster, namespace: str, tmp_path: Path) -> Desk:
    account = yaml.safe_load(make_account(cluster, namespace, "me", tmp_path).read_text())
    token = account["users"][0]["user"]["token"]
    admin = yaml.safe_load(cluster.kubeconfig.read_text())
    own, user = admin["clusters"][0]["cluster"], admin["users"][0]["user"]

    def read(values: Mapping[str, Any], name: str) -> bytes:
        if data := values.get(f"{name}-data"):
            return base64.b64decode(data)
        return (cluster.kubeconfig.parent / values[name]).read_bytes()

    ca = read(own, "certificate-authority")
    certificate, key = (read(user, f"client-{name}") for name in ("certificate", "key"))
    certs = tmp_path / "certs"
    certs.mkdir()
    for name, content in (("ca.crt", ca), ("client.crt", certificate), ("client.key", key)):
        (certs / name).write_bytes(content)
    (tmp_path / "token").write_text(f"{token}\n")
    values = {
        "SERVER": own["server"],
        "SERVER_NAME": "kubernetes.default.svc",
        "CA_DATA": base64.b64encode(ca).decode(),
        "CERT_DATA": base64.b64encode(certificate).decode(),
        "KEY_DATA": base64.b64encode(key).decode(),
        "TOKEN": token,
    }
    made = Desk(cluster, tmp_path, token, values)
    lasting = {"token": token, "expirationTimestamp": in_minutes(14)}
    for name in ("aws", "kubelogin", "gke-gcloud-auth-plugin"):
        made.write_program(name, lasting)
    made.write_program("kubectl", lasting, "v1")
    pair = {"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()}
    made.write_program("tsh", {**pair, "expirationTimestamp": in_minutes(60)})
    made.write_program("pinniped", pair)
    return made


def name_user(kube: Kube) -> str:
    """Return who the server says that a client is."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = kube._send("read", SELF_REVIEW, method="POST", body=review)
    return str(answer["status"]["userInfo"]["username"])


def ask_both(desk: Desk, files: str) -> tuple[str, str, str, str]:
    """Return server and user as kubectl has them, and as we do."""
    view = desk.ask_kubectl(files, "config", "view", "--minify", "-o", "json")
    whoami = desk.ask_kubectl(files, "auth", "whoami", "-o", "json")
    assert (view.returncode, whoami.returncode) == (0, 0), view.stderr + whoami.stderr
    server = json.loads(view.stdout)["clusters"][0]["cluster"]["server"]
    user = json.loads(whoami.stdout)["status"]["userInfo"]["username"]
    kube = desk.ask(files)
    return server, user, kube.server, name_user(kube)


@pytest.mark.parametrize("form", [*TOKENS, *CERTIFICATES])
def test_a_form_means_what_kubectl_means(desk: Desk, namespace: str, form: str) -> None:
    server, user, our_server, our_user = ask_both(desk, str(desk.write(form)))
    assert (our_server, our_user) == (server, user)
    expected = f"system:serviceaccount:{namespace}:me" if form in TOKENS else "admin"
    assert user == expected


def test_every_form_is_tried() -> None:
    others = ("azure-auth-provider", "number-name", "tailscale")
    assert {path.stem for path in FORMS.glob("*.yaml")} == {*TOKENS, *CERTIFICATES, *others}


def test_who_is_unknown_to_kubectl_is_unknown_to_us(desk: Desk) -> None:
    """Tailscale's token is of no use but behind its operator's proxy, which the test has not."""
    files = str(desk.write("tailscale"))
    refused = desk.ask_kubectl(files, "auth", "whoami")
    assert "Unauthorized" in refused.stderr or "logged in" in refused.stderr
    with pytest.raises(KubeError) as caught:
        name_user(desk.ask(files))
    assert caught.value.status == 401


def test_what_kubectl_refuses_is_refused_in_its_words(desk: Desk) -> None:
    number = str(desk.write("number-name"))
    said = desk.ask_kubectl(number, "config", "view").stderr
    sentence = re.search(r"json: cannot unmarshal .*", said)
    assert sentence, said
    with pytest.raises(ConfigError) as caught:
        desk.ask(number)
    assert caught.value.findings[0].message == sentence[0].strip()
    azure = str(desk.write("azure-auth-provider"))
    assert "azure auth plugin has been removed" in desk.ask_kubectl(azure, "get", "ns").stderr
    with pytest.raises(ConfigError, match="auth-provider azure") as caught:
        desk.ask(azure)
    assert "kubelogin" in caught.value.hint


@pytest.mark.parametrize("order", ["ab", "ba", "cab", "cba", "abc"])
def test_of_several_files_the_first_counts(desk: Desk, order: str) -> None:
    """`a` and `b` have the same names with other users, `c` sets no current context."""
    texts = {
        "a": desk.write("rancher", "a").read_text(),
        "b": desk.write("kind", "b").read_text().replace("kind-kind", "lab"),
        "c": "apiVersion: v1\nkind: Config\ncurrent-context: ''\nclusters: []\n",
    }
    texts["b"] += "contexts2: null\n"
    for name, text in texts.items():
        (desk.folder / f"{name}.yaml").write_text(text)
    files = os.pathsep.join(str(desk.folder / f"{name}.yaml") for name in order)
    server, user, our_server, our_user = ask_both(desk, f"{files}{os.pathsep}/no/such/file")
    assert (our_server, our_user) == (server, user)


def test_the_first_current_context_that_is_not_empty_counts(desk: Desk) -> None:
    first, second = desk.write("rancher"), desk.write("kind")
    empty = desk.folder / "empty.yaml"
    empty.write_text("apiVersion: v1\nkind: Config\ncurrent-context: ''\n")
    for order in ((empty, first, second), (first, empty, second), (second, first, empty)):
        files = os.pathsep.join(map(str, order))
        current = desk.ask_kubectl(files, "config", "current-context").stdout.strip()
        assert desk.ask(files).context == current


def test_a_relative_program_and_relative_files_lie_beside_their_file(desk: Desk) -> None:
    """Found from any folder, and beside the user's file, whichever file the context is in."""
    moved = desk.folder / "moved"
    moved.mkdir()
    users = yaml.safe_load(desk.write("minikube").read_text())
    context = {**users, "users": [], "clusters": []}
    users.pop("contexts"), users.pop("current-context")
    (desk.folder / "users.yaml").write_text(yaml.safe_dump(users))
    (moved / "context.yaml").write_text(yaml.safe_dump(context))
    files = f"{moved / 'context.yaml'}{os.pathsep}{desk.folder / 'users.yaml'}"
    server, user, our_server, our_user = ask_both(desk, files)
    assert (our_server, our_user) == (server, user)


def test_a_program_is_told_of_the_cluster_and_is_shown(desk: Desk, told: list[str]) -> None:
    desk.write_program(
        "gke-gcloud-auth-plugin",
        {"token": desk.token},
        says="open https://login.example and type ABC\n",
    )
    files = str(desk.write("gke"))
    desk.ask_kubectl(files, "get", "configmaps")
    info = desk.folder / "bin" / "gke-gcloud-auth-plugin.info"
    theirs = json.loads(info.read_text())
    desk.ask(files)
    ours = json.loads(info.read_text())
    assert ours == theirs
    assert "gke-gcloud-auth-plugin: open https://login.example and type ABC" in told


def test_a_token_is_renewed_at_its_end_and_not_before(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.write_program("aws", {"token": desk.token, "expirationTimestamp": in_minutes(1 / 30)})
    monkeypatch.setattr("deployer.kube.login.RENEWAL_SECONDS", 1.0)
    kube = desk.ask(str(desk.write("eks")))
    user = name_user(kube)
    assert desk.count_runs("aws") == 1
    time.sleep(2.5)
    desk.write_program("aws", {"token": desk.token, "expirationTimestamp": in_minutes(14)})
    assert [name_user(kube) for _ in range(3)] == [user] * 3
    assert desk.count_runs("aws") == 2


def test_what_is_refused_is_asked_for_once_more(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token without an end that is over, and a certificate that takes its place."""
    monkeypatch.setattr("deployer.kube.login.RENEWAL_SECONDS", 0.0)
    tsh = json.loads((desk.folder / "bin" / "tsh.json").read_text())["status"]
    desk.write_program("aws", {"token": "over"})
    kube = desk.ask(str(desk.write("eks")))
    pair = {name: tsh[name] for name in ("clientCertificateData", "clientKeyData")}
    desk.write_program("aws", pair)
    assert name_user(kube) == "admin"
    assert desk.count_runs("aws") == 2
    desk.write_program("aws", {"token": desk.token})
    (desk.folder / "token").write_text("over")
    by_file = desk.ask(str(desk.write("token-file")))
    (desk.folder / "token").write_text(desk.token)
    assert name_user(by_file).endswith(":me")
    (desk.folder / "token").write_text("over")
    by_file._access.connection._login._read_again()
    with pytest.raises(KubeError) as caught:
        name_user(by_file)
    assert caught.value.status == 401


@pytest.mark.parametrize("kind", ["http", "socks"])
def test_a_proxy_with_a_login_leads_to_the_server(desk: Desk, kind: str) -> None:
    """Requests and port-forward, under a name that the proxy alone knows."""
    server = urlsplit(desk.values["SERVER"])
    proxies = Proxies({"lab.corp.example"}, (str(server.hostname), int(server.port or 0)))
    with run_loop() as run:
        run(proxies.start())
        socks = proxies.socks_proxy.replace("socks5h", "socks5")  # the only kind that kubectl takes
        content = yaml.safe_load(desk.write("rancher").read_text())
        content["clusters"][0]["cluster"].update(
            {
                "server": "https://lab.corp.example",
                "tls-server-name": "kubernetes.default.svc",
                "proxy-url": proxies.http_proxy if kind == "http" else socks,
            }
        )
        file = desk.folder / "proxied.yaml"
        file.write_text(yaml.safe_dump(content))
        kube = desk.ask(str(file))
        assert name_user(kube).endswith(":me")
        path = f"/api/v1/namespaces/{kube.namespace}/pods/none/portforward?ports=80"
        with pytest.raises(Exception, match=r"404|403"):
            open_websocket(kube._access, path)
        whoami = desk.ask_kubectl(str(file), "auth", "whoami")
        assert whoami.returncode == 0, whoami.stderr
        run(proxies.stop())
    assert {*proxies.led} == {f"{kind} lab.corp.example"}
    assert len(proxies.led) >= 3


def test_port_forward_goes_the_same_way(desk: Desk) -> None:
    """By a WebSocket with the same authority, certificate and name; the pod is not there."""
    for form in ("rancher", "kind", "teleport"):
        kube = desk.ask(str(desk.write(form)))
        path = f"/api/v1/namespaces/{kube.namespace}/pods/none/portforward?ports=80"
        with pytest.raises(Exception, match=r"404|403"):
            open_websocket(kube._access, path)


# A program that says who it is with the client's version of its own Python.
WHO_AM_I = """
import os, kubernetes
from deployer.kube.access import load_access
from deployer.kube.client import Kube
from deployer.kube.objects import SELF_REVIEW
review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
kube = Kube(load_access(None, None, os.environ))
answer = kube._send("read", SELF_REVIEW, method="POST", body=review)
print(kubernetes.__version__, answer["status"]["userInfo"]["username"])
"""


@pytest.mark.full
@pytest.mark.parametrize("form", ["eks", "kind"])
def test_the_oldest_client_that_may_be_installed_logs_in(desk: Desk, form: str) -> None:
    """The newest one is locked."""
    python = environment_with("kubernetes==31.0.0")
    root = Path(__file__).parents[3]
    environment = {"KUBECONFIG": str(desk.write(form)), "PYTHONPATH": str(root)}
    done = subprocess.run(
        [str(python), "-c", WHO_AM_I],
        env={**desk.environment, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    version, user = done.stdout.split()
    assert (version, user.endswith(":me") or user == "admin") == ("31.0.0", True)
