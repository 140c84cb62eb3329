"""Two people in one namespace: nobody's command ends or deletes what belongs to the other."""

from __future__ import annotations

import json
import secrets
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from deployer.config.credentials import build_owner
from deployer.executors.kubernetes.agents.removal import list_belongings
from deployer.executors.kubernetes.backend.host import note_user
from deployer.kube.access import load_access
from deployer.kube.client import Kube
from deployer.kube.objects import (
    BACKEND,
    CLAIM,
    CONFIG_MAP,
    JOB,
    OWNER_LABEL,
    POD,
    SECRET,
    SWEEP_LABEL,
    SWEEP_PATH_ANNOTATION,
    build_labels,
    build_selector,
)
from deployer.launch.provision import describe_owners
from deployer.model import SweepPath
from deployer.wandb_api.accounts import add_user
from deployer.wandb_api.operations import get_sweep
from deployer.wandb_api.server import Server
from deployer.watch.rules import HANDING_OUT
from tests.cluster.bed import SECTION, TRAINER, open_client, wait_for
from tests.cluster.cluster import Cluster
from tests.cluster.proxy import ApiProxy, Fault
from tests.cluster.shell import Shell, open_shell
from tests.cluster.tenants import make_account

ON = ("--on", "kubernetes")
GRID = {
    "program": "train.py",
    "method": "grid",
    "metric": {"name": "loss", "goal": "minimize"},
    "parameters": {"lr": {"values": [0.1, 0.2]}},
}
PROJECT = {"kubernetes": {**SECTION, "node_selector": {"disk": "none"}}}


DATA = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "sweep-backend", "labels": build_labels(BACKEND)},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


@pytest.fixture
def alice(cluster: Cluster, namespace: str, server: Server, tmp_path: Path) -> Shell:
    return open_desk(cluster, namespace, server, tmp_path, "alice")


@pytest.fixture
def bob(cluster: Cluster, namespace: str, server: Server, tmp_path: Path) -> Shell:
    return open_desk(cluster, namespace, server, tmp_path, "bob")


@pytest.fixture
def kube(cluster: Cluster, namespace: str) -> Kube:
    return open_client(cluster.kubeconfig, namespace)


def open_desk(cluster: Cluster, namespace: str, server: Server, folder: Path, name: str) -> Shell:
    """Return a user's shell in a project whose agents fit on no node, so that none starts."""
    kubeconfig = make_account(cluster, namespace, name, folder)
    shell = open_shell(folder / name, kubeconfig, server, forked=True)
    shell.write("train.py", TRAINER)
    shell.write("grid.yaml", {**GRID, "project": f"{name}-{uuid.uuid4().hex[:6]}"})
    shell.write("deployer.yaml", PROJECT)
    state = {"DEPLOYER_HOME": str(folder / f"{name}-state")}
    return replace(shell, environment={**shell.environment, **state})


def start_sweep(shell: Shell) -> str:
    path = shell.deployer("sweep", "create", "grid.yaml").stdout.strip()
    shell.deployer("agents", "up", path, *ON)
    return path


def list_names(kube: Kube, path: str) -> set[str]:
    selector = build_selector(path)
    kinds = (JOB, CONFIG_MAP, SECRET)
    return {one["metadata"]["name"] for kind in kinds for one in kube.list_objects(kind, selector)}


def test_each_command_without_a_sweep_acts_on_the_callers_own(
    alice: Shell, bob: Shell, kube: Kube, namespace: str
) -> None:
    of_alice, of_bob = start_sweep(alice), start_sweep(bob)
    hers, his = list_names(kube, of_alice), list_names(kube, of_bob)
    assert hers
    assert his
    user = f"system:serviceaccount:{namespace}:alice"
    named = f"not yours: 1 agent and {len(hers)} objects of {user}"

    listed = bob.deployer("agents", "list", "--all", *ON, "-o", "json")
    assert [one["sweep_path"] for one in json.loads(listed.stdout)] == [of_bob]
    assert named in listed.stderr
    ended = bob.deployer("down", "--all", *ON)
    assert named in ended.stderr
    assert f"deployer agents list {of_alice} --on kubernetes" in ended.stderr
    assert "deployer down" not in ended.stderr
    assert not list_names(kube, of_bob)
    assert list_names(kube, of_alice) == hers

    # Without agents, what is left of her sweep is hers all the same.
    job = kube.list_objects(JOB, build_selector(of_alice))[0]["metadata"]["name"]
    kube.delete(JOB, job)
    found = bob.deployer("orphans", "--yes")
    assert "no leftovers" in found.stdout
    assert list_names(kube, of_alice) >= hers - {job}
    alice.deployer("orphans", "--yes")
    assert not list_names(kube, of_alice) - {job}


def test_another_owners_sweep_ends_only_if_named_and_confirmed(
    alice: Shell, bob: Shell, kube: Kube, namespace: str
) -> None:
    of_alice = start_sweep(alice)
    there = list_names(kube, of_alice)
    agent = json.loads(alice.deployer("agents", "list", *ON, "-o", "json").stdout)[0]["name"]

    refused = bob.try_deployer("down", of_alice, *ON)
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    drained = bob.try_deployer("agents", "drain", of_alice, "--agent", agent, *ON)
    assert f"belongs to system:serviceaccount:{namespace}:alice" in drained.stderr
    assert list_names(kube, of_alice) == there

    # As an older version made it: nobody's for sure, so it is named and stays.
    [job] = kube.list_objects(JOB, build_selector(of_alice))
    kube.patch(JOB, job["metadata"]["name"], {"metadata": {"labels": {OWNER_LABEL: None}}})
    own = alice.deployer("down", "--all", *ON)
    assert "1 agent and 1 object of an unknown owner" in own.stderr
    assert kube.list_objects(JOB, build_selector(of_alice))
    bob.deployer("down", of_alice, "-y", *ON)
    assert not list_names(kube, of_alice)


def test_in_a_shared_sweep_each_acts_on_their_own_agents(
    alice: Shell, bob: Shell, kube: Kube, server: Server, namespace: str
) -> None:
    """Alice's sweep, on which Bob works too; all of their agents wait for a node."""
    path = start_sweep(alice)
    user = f"system:serviceaccount:{namespace}:alice"
    [hers] = kube.list_objects(JOB, build_selector(path))
    agent, there = hers["metadata"]["name"], list_names(kube, path)

    def list_agents() -> list[str]:
        return [one["metadata"]["name"] for one in kube.list_objects(JOB, build_selector(path))]

    more = ("agents", "up", path, "--replicas", "2", *ON)
    impatient = bob.try_deployer(*more, "--pending-timeout", "1s")
    assert (impatient.returncode, list_agents()) == (3, [agent]), impatient.stderr

    sweep = SweepPath(*path.split("/"))
    for word in ("stop", "pause", "cancel"):
        refused = bob.try_deployer("sweep", word, path, *ON)
        assert refused.returncode == 2, refused.stderr
        assert "not yours: 1 agent and" in refused.stderr
        assert f" of {user}" in refused.stderr
        assert "--yes" in refused.stderr
    assert get_sweep(server.client, sweep).state in HANDING_OUT
    bob.deployer("sweep", "pause", path, "-y", *ON)
    assert bob.try_deployer("sweep", "resume", path, *ON).returncode == 2
    assert get_sweep(server.client, sweep).state == "PAUSED"
    stays = bob.try_deployer("sweep", "delete", path, "-y", *ON)
    assert f"agents are still running: {agent} of {user}" in stays.stderr
    assert f"hint: deployer agents list {path}" in stays.stderr
    alice.deployer("sweep", "resume", path, *ON)

    idle = bob.deployer("agents", "up", path, "--replicas", "1", *ON).stderr
    assert f"started no agent: 1 agent already exists, 1 of {user}" in idle
    assert f"deployer agents up {path} --replicas 2" in idle
    bob.deployer(*more)
    for shell in (alice, bob):
        shown = shell.deployer("agents", "logs", path, *ON).stderr
        assert all(f"{name} has not started" in shown for name in list_agents())
    unsure = bob.try_deployer("down", path, *ON)
    assert unsure.returncode == 2
    assert f"deployer agents down {path} --mine" in unsure.stderr
    assert len(list_agents()) == 2
    bob.deployer("agents", "down", path, "--mine", *ON)
    assert list_names(kube, path) == there


def test_in_a_shared_sweep_each_has_objects_of_their_own(
    alice: Shell, bob: Shell, kube: Kube, cluster: Cluster, namespace: str
) -> None:
    """Alice takes hers down while Bob's pod waits for a node, and it starts all the same."""
    later = {"kubernetes": {**SECTION, "node_selector": {namespace: "open"}}}
    alice.write("deployer.yaml", later)
    bob.write("deployer.yaml", later)
    path = start_sweep(alice)
    bob.deployer("agents", "up", path, "--replicas", "2", *ON)
    user = f"system:serviceaccount:{namespace}"
    hers, his = (
        f"{build_selector(path)},{OWNER_LABEL}={build_owner(f'{user}:{name}').id}"
        for name in ("alice", "bob")
    )
    # As an older version made it: hers, and his agent needs it.
    shared, *_ = (one["metadata"]["name"] for one in kube.list_objects(CONFIG_MAP, his))
    of_alice = {OWNER_LABEL: build_owner(f"{user}:alice").id}
    kube.patch(CONFIG_MAP, shared, {"metadata": {"labels": of_alice}})
    alice.deployer("agents", "down", path, "--mine", *ON)
    assert not kube.list_objects(JOB, hers)
    assert not kube.list_objects(SECRET, hers)
    assert [one["metadata"]["name"] for one in kube.list_objects(CONFIG_MAP, hers)] == [shared]
    cluster.kubectl("label", "node", "node-0", f"{namespace}=open")

    def works() -> bool:
        pods = kube.list_objects(POD, his)
        return any(pod["status"]["phase"] in ("Running", "Succeeded") for pod in pods)

    wait_for(works, "Bob's agent")


@pytest.mark.full
def test_the_name_of_an_owner_counts_on_every_machine(alice: Shell, bob: Shell, kube: Kube) -> None:
    path = start_sweep(bob)
    his = list_names(kube, path)
    alice.deployer("down", "--all", *ON, "--owner", "alice")
    assert list_names(kube, path) == his
    bob.deployer("down", "--all", *ON)
    bob.write("deployer.yaml", {**PROJECT, "owner": "team"})
    path = start_sweep(bob)
    alice.deployer("--owner", "team", "down", "--all", *ON)
    assert not list_names(kube, path)


@pytest.mark.full
def test_another_owners_key_is_neither_replaced_nor_deleted(
    alice: Shell, bob: Shell, kube: Kube, server: Server
) -> None:
    wandb = ("--wandb", server.url)
    alice.deployer("secret", "set", *wandb)
    before = kube.get(SECRET, "wandb-secret")
    assert "already has the key of tester" in bob.deployer("secret", "set", *wandb).stderr
    key = secrets.token_hex(20)
    add_user(server.client, "bob", key)
    other = replace(bob, environment={**bob.environment, "WANDB_API_KEY": key})
    for words in (("set", *wandb), ("delete",)):
        refused = other.try_deployer("secret", *words)
        assert refused.returncode == 2, refused.stderr
        assert ":alice" in refused.stderr
        assert "secret set" not in refused.stderr
        assert "kubectl" not in refused.stderr
    assert kube.get(SECRET, "wandb-secret") == before
    assert json.loads(bob.deployer("secret", "show", "-o", "json").stdout)["mine"] is False
    alice.deployer("secret", "delete")
    assert kube.get(SECRET, "wandb-secret") is None


def test_a_backend_of_two_owners_keeps_its_data(
    alice: Shell, bob: Shell, kube: Kube, namespace: str
) -> None:
    open_client(Path(alice.environment["KUBECONFIG"]), namespace).create(DATA)
    everything = ("down", "--all", "--delete-data", *ON)
    unasked = alice.try_deployer(*everything)
    assert unasked.returncode == 2
    assert "to be deleted: PersistentVolumeClaim sweep-backend" in unasked.stderr
    extra = alice.try_deployer(*everything, "some/other/sweep", "-y")
    assert extra.returncode == 2
    assert kube.get(CLAIM, "sweep-backend")

    foreign = bob.deployer(*everything, "-y")
    assert f"belongs to system:serviceaccount:{namespace}:alice and stays" in foreign.stderr
    assert kube.get(CLAIM, "sweep-backend")

    used = {f"deployer.dev/used-by-{'0' * 16}": "bob"}
    kube.patch(CLAIM, "sweep-backend", {"metadata": {"annotations": used}})
    refused = alice.try_deployer(*everything, "-y")
    assert refused.returncode == 1
    assert "stays, since bob also uses it" in refused.stderr
    assert "to be deleted" not in refused.stderr
    assert kube.get(CLAIM, "sweep-backend")

    assert "only --delete-data deletes its data" in refused.stderr
    stopping = ("backend", "down", "--delete-data", "-y", *ON)
    foreign = bob.try_deployer(*stopping)
    assert "is not yours: " in foreign.stderr
    assert kube.get(CLAIM, "sweep-backend")
    alice.deployer(*stopping)
    assert kube.get(CLAIM, "sweep-backend") is None


def test_who_has_left_with_all_keeps_no_backend(
    alice: Shell, bob: Shell, kube: Kube, namespace: str
) -> None:
    """Who has used it still does until `down --all`."""
    open_client(Path(alice.environment["KUBECONFIG"]), namespace).create(DATA)
    note_user(open_client(Path(bob.environment["KUBECONFIG"]), namespace))
    everything = ("down", "--all", "--delete-data", *ON, "-y")
    assert ":bob also uses it" in alice.try_deployer(*everything).stderr
    bob.deployer("down", "--all", *ON)
    alice.deployer(*everything)
    assert kube.get(CLAIM, "sweep-backend") is None


def test_data_that_could_not_be_listed_stay(
    cluster: Cluster, namespace: str, server: Server, kube: Kube, tmp_path: Path
) -> None:
    kube.create(DATA)
    with ApiProxy(cluster.kubeconfig, tmp_path) as proxy:
        shell = open_shell(tmp_path / "desk", proxy.kubeconfig, server, forked=True)
        shell.write("deployer.yaml", {"kubernetes": {**SECTION, "namespace": namespace}})
        proxy.set_faults(Fault("status", "GET .*/persistentvolumeclaims", status=400, count=1))
        command = ("down", "--all", "--delete-data", *ON)
        unlisted = shell.try_deployer(*command)
        assert unlisted.returncode == 1, unlisted.stderr
        assert "the data on kubernetes cannot be listed and was kept: " in unlisted.stderr
        assert kube.get(CLAIM, "sweep-backend")
        shell.deployer(*command, "-y")
    assert kube.get(CLAIM, "sweep-backend") is None


@pytest.mark.full
def test_what_only_resembles_an_agents_job_stays(
    alice: Shell, bob: Shell, kube: Kube, namespace: str
) -> None:
    """A Job of another with our labels, but without an agent's, as some older script made it."""
    labels = {**build_labels("agent"), SWEEP_LABEL: "oldstyle"}
    container = {"name": "agent", "image": "none", "command": ["sleep", "9"]}
    pod = {"containers": [container], "restartPolicy": "Never", "nodeSelector": {"disk": "none"}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "oldstyle",
            "namespace": namespace,
            "labels": labels,
            "annotations": {SWEEP_PATH_ANNOTATION: "a/b/oldstyle"},
        },
        "spec": {"template": {"metadata": {"labels": labels}, "spec": pod}},
    }
    open_client(Path(alice.environment["KUBECONFIG"]), namespace).create(job)
    kube.patch(JOB, "oldstyle", {"metadata": {"labels": {OWNER_LABEL: None}}})

    path = start_sweep(bob)
    assert "oldstyle" not in bob.deployer("agents", "list", "--all", *ON).stdout
    bob.deployer("down", path, *ON)
    assert not list_names(kube, path)
    bob.deployer("down", "--all", *ON)
    bob.deployer("orphans", "--yes")
    unknown = bob.try_deployer("down", "a/b/oldstyle", "-y", *ON)
    assert unknown.returncode == 1
    assert "nothing of a/b/oldstyle was found" in unknown.stderr
    assert kube.get(JOB, "oldstyle")


@pytest.mark.full
def test_a_hint_leads_to_the_cluster_and_a_scale_that_others_hinder_fails(
    alice: Shell, bob: Shell, kube: Kube, namespace: str
) -> None:
    path = start_sweep(bob)
    user = f"system:serviceaccount:{namespace}:bob"
    kept = alice.try_deployer("agents", "scale", "0", path, *ON)
    assert kept.returncode == 1
    assert f"you may not drain 1 agent of {user}" in kept.stderr
    assert kube.list_objects(JOB, build_selector(path))

    here = alice.try_deployer("down", path, "-y")
    assert here.returncode == 1
    assert f"nothing of {path} was found on this machine" in here.stderr
    assert kube.list_objects(JOB, build_selector(path))
    see = f"deployer agents list {path} --on kubernetes"
    assert see in alice.deployer("agents", "list", "--all", *ON).stderr
    assert see in alice.deployer("orphans", "--yes").stderr
    seen = alice.type(see.replace("deployer", f"{sys.executable} -m deployer"))
    assert user in seen.stdout
    assert list_names(kube, path)


def test_what_an_earlier_session_has_is_named_and_stays(cluster: Cluster, namespace: str) -> None:
    """As on EKS, whose names for people had the session's name, which was another one each day."""
    role = "arn:aws:sts::111122223333:assumed-role/trainers"
    access = load_access(None, namespace, {"KUBECONFIG": str(cluster.kubeconfig)})
    earlier = Kube(access, owner=f"{role}/botocore-session-1764374400")
    named = Kube(access, owner=f"{role}/ann")
    for kube, name in ((earlier, "earlier"), (named, "named")):
        kube.create_once(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": name,
                    "labels": {**build_labels("code"), SWEEP_LABEL: "s1"},
                    "annotations": {SWEEP_PATH_ANNOTATION: "e/p/s1"},
                },
            }
        )
    now = Kube(access, owner=role)
    found = {one.owner: one for one in list_belongings(now)}
    assert [one.by_session for one in found.values()] == [True, False]
    [said] = describe_owners([found[f"{role}/botocore-session-1764374400"]], time.time())
    assert said.startswith("yours in an earlier session: 0 agents and 1 object of arn:aws")
    assert f"--owner {role}/botocore-session-1764374400" in said
    assert [one.owner for one in list_belongings(earlier)] == [f"{role}/ann"]
