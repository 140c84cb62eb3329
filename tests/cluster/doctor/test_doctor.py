"""What `doctor` says of broken clusters and namespaces; its remedies, pasted, mend them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployer.config.sections.image_reference import Repository
from deployer.findings import Severity
from deployer.images.registry import Registry
from deployer.images.registry_credentials import Credentials
from deployer.wandb_api.server import Server
from tests.cluster.cluster import Cluster
from tests.cluster.doctor.broken import CASES, secret
from tests.cluster.doctor.doctor_bench import (
    Bench,
    bench,
    build,
    check_broken,
    check_nothing_wrong,
)
from tests.cluster.site_registry import PULL_SECRET
from tests.images.registry import PASSWORD, USER, RunningRegistry, serve_registry
from tests.outside.files import load

__all__ = ["bench"]

# One of each kind: the others wait for `make test-full`.
ALWAYS = {
    "quota-and-limit-range",
    "no-such-label",
    "claim-unbound",
    "secret-key-missing",
    "host-ipc-forbidden",
    "account-and-quota-and-policy",
}


def in_tier(name: str) -> Any:
    return pytest.param(name, marks=() if name in ALWAYS else pytest.mark.full)


@pytest.fixture(scope="module")
def site(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    """Run a registry with one image, `team/trainer:v1`."""
    with serve_registry(tmp_path_factory.mktemp("site"), cluster.host) as running:
        push_image(running)
        yield running


def push_image(running: RunningRegistry) -> None:
    login = Credentials(USER, PASSWORD, "the test")
    registry = Registry(Repository(running.address, "team/trainer"), login, str(running.ca))
    config = b"{}"
    digest = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    folder = running.folder / "config.json"
    folder.write_bytes(config)
    registry.put_blob(digest, len(config), lambda: folder.open("rb"))
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = {
        "schemaVersion": 2,
        "mediaType": kind,
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": digest,
            "size": len(config),
        },
        "layers": [],
    }
    registry.put_manifest("v1", kind, json.dumps(manifest).encode())


def test_a_cluster_that_fits_has_nothing_wrong(bench: Bench, namespace: str) -> None:
    check_nothing_wrong(bench, namespace)


@pytest.mark.parametrize("name", [in_tier(name) for name in CASES])
def test_what_is_broken_is_named_and_its_remedy_mends_it(
    bench: Bench, namespace: str, name: str
) -> None:
    check_broken(bench, namespace, CASES[name])


@pytest.mark.full
def test_an_image_is_asked_of_its_registry(
    bench: Bench, cluster: Cluster, namespace: str, site: RunningRegistry
) -> None:
    repository = f"{site.address}/team/trainer"
    pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    (bench.folder / ".docker").mkdir()
    login = {"auths": {site.address: {"auth": pair}}}
    (bench.folder / ".docker/config.json").write_text(json.dumps(login))
    ca = {"DEPLOYER_REGISTRY_CA": str(site.ca)}
    bench = Bench(cluster, bench.folder, {**bench.environment, **ca})

    def write(tag: str, **changes: object) -> None:
        image = {"image": f"{repository}:{tag}", "image_pull_policy": "IfNotPresent"}
        bench.write(build(namespace, **image, **changes))

    def only() -> tuple[str, str, str]:
        [(code, one)] = bench.list_wrong().items()
        return code, one.message, one.fix

    bench.write({**build(namespace, image=None), "image": {"repository": repository}})
    (bench.folder / "Dockerfile").write_text("FROM scratch\n")
    nobody = Bench(cluster, bench.folder, {**bench.environment, "PATH": str(bench.folder)})
    [(code, one)] = nobody.list_wrong().items()
    assert (code, one.subject) == ("image", f"image {repository}")
    assert one.message.startswith("nothing here builds images (docker: not installed; ")

    write("v1")  # nodes may have a login of their own, as those of most clouds have
    assert bench.list_wrong() == {}
    [login] = [one for one in bench.examine() if one.code == "pull-secret"]
    assert (login.severity, login.message) == (
        Severity.UNKNOWN,
        "its registry wants a login, and deployer.yaml names no pull secret: "
        "nodes may have one of their own",
    )
    write("v1", image_pull_secrets=[PULL_SECRET])
    code, said, remedy = only()
    assert (code, said) == ("pull-secret", "the pull secret is missing")
    bench.paste(remedy)
    assert bench.list_wrong() == {}
    wrong = {"auths": {site.address: {"auth": base64.b64encode(b"carol:wrong").decode()}}}
    cluster.kubectl("delete", "secret", PULL_SECRET, "-n", namespace)
    refused = secret(PULL_SECRET, **{".dockerconfigjson": json.dumps(wrong)})
    cluster.create({**refused, "type": "kubernetes.io/dockerconfigjson"}, namespace)
    code, said, remedy = only()
    assert (code, said) == ("pull-secret", f"the login of Secret {PULL_SECRET} is refused")
    for step in remedy.split("; "):  # another Secret: somebody else may use this one
        bench.paste(step)
    assert bench.list_wrong() == {}
    [token] = load("pull-secrets")["auths"]["az-acr-login"]["auths"].values()
    cluster.kubectl("delete", "secret", PULL_SECRET, "-n", namespace)
    other = {".dockerconfigjson": json.dumps({"auths": {site.address: token}})}
    unread = secret(PULL_SECRET, **other)
    cluster.create({**unread, "type": "kubernetes.io/dockerconfigjson"}, namespace)
    write("v1", image_pull_secrets=[PULL_SECRET])
    assert bench.list_wrong() == {}
    write("v2", image_pull_secrets=[f"{PULL_SECRET}-pull"])
    code, said, remedy = only()
    assert (code, said) == ("image", "the registry has no tag v2; there is v1")
    bench.paste(remedy)
    assert bench.list_wrong() == {}


@pytest.mark.full
def test_a_server_that_does_not_fit_is_named(
    bench: Bench, cluster: Cluster, namespace: str, server: Server
) -> None:
    bench.write(build(namespace))

    def only(**environment: str) -> tuple[str, str, str]:
        there = Bench(cluster, bench.folder, {**bench.environment, **environment})
        [(code, one)] = there.list_wrong().items()
        return code, one.message, one.fix

    code, _, remedy = only(WANDB_API_KEY="f" * 40)
    assert code == "key"
    assert remedy == f"the key came from WANDB_API_KEY; is it a key of {server.url}?"
    code, said, _ = only(WANDB_BASE_URL=f"http://{cluster.host}:9")
    assert code == "server"
    assert "cannot be reached" in said
    code, said, _ = only(KUBECONFIG=str(make_lost_kubeconfig(cluster, bench.folder)))
    assert code == "cluster"
    assert "it refuses the connection" in said
    bench.write(build(namespace, context="elsewhere"))
    code, said, remedy = only()
    assert code == "cluster"
    assert said.startswith("context: context 'elsewhere' not found in ")
    assert remedy.startswith("name one of: ")


def make_lost_kubeconfig(cluster: Cluster, folder: Path) -> Path:
    """Return a kubeconfig that leads to a port where nobody listens."""
    file = folder / "lost"
    file.write_text(cluster.kubeconfig.read_text().replace(cluster.server, "https://127.0.0.1:9"))
    return file
