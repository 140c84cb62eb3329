"""What `doctor` says of broken clusters and namespaces; its remedies, pasted, mend them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deployer.wandb_api.server import Server
from tests.cluster.cluster import Cluster
from tests.cluster.doctor.broken import CASES, secret
from tests.cluster.doctor.doctor_bench import (
    Bench,
    bench,
    build,
    check_broken,
)

__all__ = ["bench"]

HOST = "registry.example"  # which nobody has
# One of each kind: the others wait for `make test-full`.
ALWAYS = {
    "quota-cpu",
    "no-such-label",
    "secret-key-missing",
    "host-ipc-forbidden",
    "service-account-missing",
}


def in_tier(name: str) -> Any:
    return pytest.param(name, marks=() if name in ALWAYS else pytest.mark.full)


@pytest.mark.parametrize("name", [in_tier(name) for name in CASES])
def test_what_is_broken_is_named_and_its_remedy_mends_it(
    bench: Bench, namespace: str, name: str
) -> None:
    check_broken(bench, namespace, CASES[name])


@pytest.mark.full
def test_the_images_pull_secrets_are_named(bench: Bench, cluster: Cluster, namespace: str) -> None:
    (bench.folder / ".docker").mkdir()
    (bench.folder / ".docker/config.json").write_text('{"auths": {}}')

    def only() -> tuple[str, str, str]:
        [(code, one)] = bench.list_wrong().items()
        return code, one.message, one.fix

    repository = f"{HOST}/team/trainer"
    bench.write({**build(namespace, image=None), "image": {"repository": repository}})
    (bench.folder / "Dockerfile").write_text("FROM scratch\n")
    code, said, _ = only()
    assert (code, said.partition(": ")[0]) == ("image", f"cannot reach the registry {HOST}")

    of_image = {"image": f"{repository}:v1", "image_pull_policy": "IfNotPresent"}
    bench.write(build(namespace, **of_image))  # nodes may have a login of their own
    assert bench.list_wrong() == {}
    bench.write(build(namespace, **of_image, image_pull_secrets=["site"]))
    code, said, remedy = only()
    assert (code, said) == ("pull-secret", "the pull secret is missing")
    bench.paste(remedy)
    assert bench.list_wrong() == {}
    cluster.kubectl("delete", "secret", "site", "-n", namespace)
    cluster.create(secret("site", password="x"), namespace)
    code, said, remedy = only()
    assert said.startswith("is of type Opaque, which nodes ignore")
    for step in remedy.split("; "):  # another Secret: somebody else may use this one
        bench.paste(step)
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
