"""The kube to Kubernetes: what it does on a real server, and what it says when a call fails."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kubernetes.client import exceptions as client
from kubernetes.config.config_exception import ConfigException
from urllib3 import exceptions as http

from deployer.errors import ConfigError, KubeError
from deployer.executors.kubernetes.agents.logs import follow_log, read_log
from deployer.kube.access import load_access
from deployer.kube.client import Kube, identify_cluster
from deployer.kube.failures import CATCHABLE, HINTS, TROUBLES, ApiCall, translate_error
from deployer.kube.objects import CONFIG_MAP, JOB, POD
from tests.cluster.bed import open_client
from tests.cluster.cluster import Cluster
from tests.cluster.pods import build_job, build_pod, python
from tests.cluster.proxy import ApiProxy, Fault
from tests.cluster.tenants import make_tenant

ATTEMPT = ApiCall("create", JOB, "demo-1", "sweeps", "home", "https://k8s.example")
CONFIG_MAPS = "/configmaps"


def build_config_map(name: str, **data: str) -> dict[str, object]:
    labels = {"app": "test"}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@pytest.fixture
def kube(cluster: Cluster, namespace: str) -> Kube:
    return open_client(cluster.kubeconfig, namespace)


@pytest.fixture
def proxy(cluster: Cluster, tmp_path: Path) -> Iterator[ApiProxy]:
    with ApiProxy(cluster.kubeconfig, tmp_path) as serving:
        yield serving


def test_help_does_not_import_the_client() -> None:
    code = "import sys; from deployer.__main__ import run; run(['--help']); "
    code += "sys.exit('kubernetes' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_an_impersonated_user_has_no_other_rights(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    for one in content["users"]:
        one["user"]["as"] = "somebody"
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(KubeError) as caught:
        open_client(file, namespace).list_objects(POD)
    assert caught.value.status == 403
    assert 'User "somebody" cannot list' in str(caught.value)


def test_apply_list_patch_delete(kube: Kube) -> None:
    kube.apply(build_config_map("one", a="1"))
    kube.apply(build_config_map("one", a="2"))
    kube.create(build_config_map("two"))
    found = kube.list_objects(CONFIG_MAP, "app=test")
    assert [(one["kind"], one["metadata"]["name"]) for one in found] == [
        ("ConfigMap", "one"),
        ("ConfigMap", "two"),
    ]
    assert found[0]["data"] == {"a": "2"}
    one = kube.get(CONFIG_MAP, "one")
    assert one
    assert one["metadata"]["managedFields"][0]["manager"] == "deployer"
    kube.patch(CONFIG_MAP, "two", {"data": {"b": "3"}})
    again = kube.get(CONFIG_MAP, "two")
    assert again is not None
    assert again["data"] == {"b": "3"}
    kube.delete(CONFIG_MAP, "two")
    kube.delete(CONFIG_MAP, "two")
    assert kube.get(CONFIG_MAP, "two") is None
    kube.delete_collection(CONFIG_MAP, "app=test")
    assert kube.list_objects(CONFIG_MAP, "app=test") == []


def test_dry_run_makes_nothing(kube: Kube) -> None:
    kube.create(build_config_map("dry"), dry_run=True)
    kube.apply(build_config_map("dry"), dry_run=True)
    assert kube.get(CONFIG_MAP, "dry") is None


def test_tenant_is_told_what_it_may_not(cluster: Cluster, namespace: str) -> None:
    kube = open_client(make_tenant(cluster, namespace), namespace)
    assert kube.is_allowed("create", JOB)
    assert not kube.is_allowed("create", POD, "exec")
    with pytest.raises(KubeError) as caught:
        open_client(cluster.folder.path / f"tenant-{namespace}.kubeconfig", "default").list_objects(
            JOB
        )
    assert caught.value.message.startswith("cannot list Job in namespace default: jobs.batch is")
    assert 'cannot list resource "jobs" in API group "batch"' in caught.value.message
    command = "kubectl auth can-i list jobs.batch -n default --context "
    assert caught.value.hint.startswith(command)


def test_a_cluster_is_known_again_however_it_is_reached(
    cluster: Cluster, namespace: str, proxy: ApiProxy
) -> None:
    admin = open_client(cluster.kubeconfig, namespace)
    uid = cluster.kubectl("get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")
    assert identify_cluster(admin) == uid
    assert identify_cluster(open_client(proxy.kubeconfig, namespace)) == uid
    cluster.wait_for("configmap/kube-root-ca.crt", "jsonpath={.metadata.uid}", namespace)
    own = ("configmap", "kube-root-ca.crt", "-n", namespace, "-o", "jsonpath={.metadata.uid}")
    tenant = open_client(make_tenant(cluster, namespace), namespace)
    assert identify_cluster(tenant) == cluster.kubectl("get", *own)
    nobody = open_client(make_tenant(cluster, "default", rules=()), "default")
    assert identify_cluster(nobody) == nobody.fingerprint


def test_fields_that_the_server_refuses_are_named(kube: Kube) -> None:
    with pytest.raises(KubeError) as caught:
        kube.create(build_config_map("Not_a_name"))
    assert caught.value.status == 422
    assert 'metadata.name: Invalid value: "Not_a_name"' in caught.value.message
    assert caught.value.hint == "deployer plan FILE -o yaml shows the manifests"


def test_nobody_listens(tmp_path: Path, cluster: Cluster) -> None:
    with ApiProxy(cluster.kubeconfig, tmp_path) as gone:
        kube = open_client(gone.kubeconfig, "sweeps")
    with pytest.raises(KubeError) as caught:
        kube.list_objects(JOB)
    assert caught.value.message == (
        f"cannot list Job in namespace sweeps: {kube.server} (context proxy): "
        "it refuses the connection"
    )
    assert caught.value.hint == "kubectl cluster-info --context proxy"
    assert caught.value.passing


def test_certificate_that_nobody_vouches_for(cluster: Cluster, tmp_path: Path) -> None:
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    server = content["clusters"][0]["cluster"]["server"]
    content["clusters"][0]["cluster"] = {"server": server}
    (tmp_path / "config").write_text(yaml.safe_dump(content))
    with pytest.raises(KubeError, match="its certificate is not trusted"):
        open_client(tmp_path / "config", "default").list_objects(JOB)


def test_kubeconfig_is_read_as_kubectl_does(cluster: Cluster, tmp_path: Path) -> None:
    environment = {"KUBECONFIG": f"{tmp_path}/missing:{cluster.kubeconfig}"}
    assert load_access(None, None, environment).namespace == "default"
    assert load_access(None, "mine", environment).namespace == "mine"
    with pytest.raises(ConfigError, match="context 'elsewhere' not found"):
        load_access("elsewhere", None, environment)
    with pytest.raises(ConfigError) as caught:
        load_access(None, None, {"KUBECONFIG": f"{tmp_path}/missing"})
    assert "kubeconfig not found" in caught.value.message


@pytest.mark.parametrize(
    "fault",
    [
        Fault("refuse", CONFIG_MAPS, count=2),
        Fault("lose_reply", CONFIG_MAPS, count=2),
        Fault("cut", CONFIG_MAPS, count=1),
        Fault("status", CONFIG_MAPS, 500, count=2),
        Fault("status", CONFIG_MAPS, 503, count=2),
        Fault("status", CONFIG_MAPS, 429, retry_after_seconds=1, count=2),
    ],
    ids=lambda fault: f"{fault.kind}-{fault.status}",
)
def test_passing_trouble_passes(proxy: ApiProxy, namespace: str, fault: Fault) -> None:
    kube = open_client(proxy.kubeconfig, namespace)
    fault.happened = 0
    proxy.set_faults(fault)
    kube.apply(build_config_map("once", a="1"))
    assert fault.happened == fault.count
    assert len(kube.list_objects(CONFIG_MAP, "app=test")) == 1


def test_a_server_that_comes_up_may_forbid_for_a_while(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    with ApiProxy(make_tenant(cluster, namespace), tmp_path) as proxy:
        access = load_access(None, namespace, {"KUBECONFIG": str(proxy.kubeconfig)})
        kube = Kube(access, sleep=lambda _: None)
        told = 'configmaps is forbidden: User "t" cannot list resource "configmaps"'
        proxy.set_faults(Fault("status", CONFIG_MAPS, 403, told, "Forbidden", count=1))
        with pytest.raises(KubeError):
            kube.list_objects(CONFIG_MAP)
        assert kube.list_objects(CONFIG_MAP, "app=test") == []
        proxy.set_faults(Fault("status", CONFIG_MAPS, 403, told, "Forbidden", count=9))
        assert kube.list_objects(CONFIG_MAP, "app=test") == []
        assert proxy.faults[0].happened == 9


def test_generated_name_is_made_once(proxy: ApiProxy, namespace: str) -> None:
    kube = open_client(proxy.kubeconfig, namespace)
    manifest = build_config_map("x")
    manifest["metadata"] = {"generateName": "x-", "labels": {"app": "test"}}
    proxy.set_faults(Fault("lose_reply", f"POST .*{CONFIG_MAPS}", count=1))
    made = kube.create(manifest, "app=test")
    assert [one["metadata"]["name"] for one in kube.list_objects(CONFIG_MAP, "app=test")] == [
        made["metadata"]["name"]
    ]
    proxy.set_faults(Fault("refuse", f"POST .*{CONFIG_MAPS}", count=1))
    with pytest.raises(KubeError, match=r"cannot create ConfigMap y-\*.*cut off"):
        kube.create({**manifest, "metadata": {"generateName": "y-"}}, "app=other")


def test_log_follows_across_a_cut(proxy: ApiProxy, cluster: Cluster, namespace: str) -> None:
    kube = open_client(proxy.kubeconfig, namespace)
    code = "import time\nfor n in range(6): print(n); time.sleep(0.4)"
    cluster.create(build_pod("talker", python(code)), namespace)
    cluster.wait_for("pod/talker", "condition=Ready", namespace)
    proxy.set_faults(Fault("cut", "/pods/talker/log", count=2))
    assert [line.text for line in follow_log(kube, "talker")] == list("012345")
    assert [line.text for line in read_log(kube, "talker")] == list("012345")
    assert proxy.faults[0].happened == 2


def test_job_and_its_pods_go_together(kube: Kube, cluster: Cluster, namespace: str) -> None:
    pod = build_pod("gone", ["sleep", "3600"])
    pod["spec"]["terminationGracePeriodSeconds"] = 1  # the first process of a pod sleeps on
    cluster.create(build_job("gone", pod), namespace)
    cluster.wait_for("job/gone", "jsonpath=.status.ready=1", namespace)
    kube.delete(JOB, "gone", propagation="Foreground")
    cluster.wait_for("job/gone", "delete", namespace)
    assert kube.list_objects(POD) == []


def walk(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    for sub in kind.__subclasses__():
        yield sub
        yield from walk(sub)


def test_every_exception_of_the_client_is_mapped() -> None:
    found = {*walk(client.OpenApiException), *walk(http.HTTPError), ConfigException}
    missing = [one.__name__ for one in found if not issubclass(one, CATCHABLE)]
    assert not missing


@pytest.mark.parametrize("status", sorted({*HINTS, 405, 410, 415, 500, 502, 503}))
def test_every_status_has_words(status: int) -> None:
    error = client.ApiException(status=status, reason="Because")
    told = translate_error(error, ATTEMPT)
    said = f"the server answers {status} Because"
    if status == 404:
        said = "the server has no kind Job in batch/v1"
    assert told.message == f"cannot create Job demo-1 in namespace sweeps: {said}"
    assert told.status == status
    assert told.hint
    assert "{" not in told.hint


def test_every_trouble_has_words() -> None:
    for kind, said in ((kind, said) for kinds, said, _ in TROUBLES for kind in kinds):
        error = kind.__new__(kind)
        told = translate_error(error, ATTEMPT)
        assert told.status == 0
        assert "https://k8s.example (context home): " in told.message
        assert told.hint
        assert said
