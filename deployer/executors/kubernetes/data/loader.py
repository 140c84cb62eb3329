"""A data loader: its manifests, its start, and its guaranteed removal."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from deployer.config.kubernetes import ClusterConfig
from deployer.errors import ConfigError, DataError, KubeError
from deployer.executors.kubernetes.agents.objects import explain_pod_end
from deployer.executors.kubernetes.data.loader_client import HINT, LoaderClient
from deployer.executors.kubernetes.diagnose.pending import PendingPods, WaitLog
from deployer.executors.kubernetes.diagnose.rights import RUN_LOADER, check_rights
from deployer.executors.kubernetes.manifests.overlay import (
    REMOVED,
    build_identity,
    build_queue_labels,
    encode,
    list_variables,
    overlay,
    without_none,
)
from deployer.executors.kubernetes.manifests.templates import find_folder, load_documents
from deployer.images.code_archive import build_loader_zip
from deployer.kube.client import Kube
from deployer.kube.objects import (
    ENDED_PHASES,
    JOB,
    LOADER,
    LOADER_LABEL,
    MADE_BY_ANNOTATION,
    POD,
    Manifest,
    build_labels,
    build_selector,
    find_condition,
)
from deployer.kube.port_forward import Forward

PROGRAM_PATH = "/deployer/loader/loader.zip"
PROGRAM_VOLUME = "loader"
VOLUME = "volume"
ROOT = "/volume"
ROOT_VARIABLE = "LOADER_ROOT"
TOKEN_HASH_VARIABLE = "LOADER_TOKEN_HASH"
PORT = 8099
LEASE_SECONDS = 120  # how long a loader outlives its process
START_SECONDS = 600.0  # image pull, new disk, perhaps a new node
POLL_SECONDS = 0.3
TELL_SECONDS = 3.0  # shorter waits are not logged
BEAT_SECONDS = 20.0
END_SECONDS = 30.0


@dataclass(frozen=True)
class LoaderTask:
    """One loader: `source` is its volume as in a pod, `folder` a part of the volume.

    `mark` identifies the loader, `made_by` is the process that needs it.
    """

    mark: str
    made_by: str
    token_hash: str
    source: Manifest
    folder: str = ""

    @property
    def name(self) -> str:
        return f"{LOADER}-{self.mark}"


def load_loader_templates() -> tuple[Manifest, ...]:
    """Read the documents of k8s/data-loader.yaml: the Job, the ConfigMap of its program."""
    return tuple(load_documents(find_folder() / "data-loader.yaml"))


def build_loader(
    templates: tuple[Manifest, ...], task: LoaderTask, cluster: ClusterConfig, program: bytes
) -> tuple[Manifest, Manifest]:
    """Return a loader's Job and its ConfigMap; raises ConfigError without an image."""
    if cluster.image is None:
        hint = "image: any image with Python, for example your trainer's"
        raise ConfigError("deployer.yaml: kubernetes.image", "is missing", hint)
    labels = {**cluster.labels, **build_labels(LOADER), LOADER_LABEL: task.mark}
    annotations = {**cluster.annotations, MADE_BY_ANNOTATION: task.made_by}
    marks = {"labels": labels, "annotations": annotations}
    named = {"name": task.name, "namespace": cluster.namespace or REMOVED, **marks}
    generated = {"name": REMOVED, "generateName": f"{task.name}-"} if cluster.generate_name else {}
    variables = {
        **cluster.env,
        ROOT_VARIABLE: "/".join(filter(None, (ROOT, task.folder))),
        TOKEN_HASH_VARIABLE: task.token_hash,
    }
    container = {
        "name": "loader",
        "image": cluster.image,
        "imagePullPolicy": cluster.image_pull_policy,
        "command": [cluster.python, PROGRAM_PATH],
        "env": list_variables(variables),
    }
    pod = {
        **build_identity(cluster),
        # Without the GPU product's label: a loader needs no GPU, and may run on another node.
        "nodeSelector": cluster.node_selector,
        "tolerations": [without_none(asdict(one)) for one in cluster.tolerations],
        "containers": [container],
        "volumes": [
            {"name": PROGRAM_VOLUME, "configMap": {"name": task.name}},
            {"name": VOLUME, **task.source},
        ],
    }
    job, config_map = (overlay(template, {"metadata": named}) for template in templates)
    patch = {
        "metadata": {**generated, "labels": build_queue_labels(cluster)},
        "spec": {
            "activeDeadlineSeconds": LEASE_SECONDS,
            "template": {"metadata": marks, "spec": pod},
        },
    }
    files = {PROGRAM_PATH.rpartition("/")[2]: encode(program)}
    return overlay(job, patch), overlay(config_map, {"binaryData": files})


@contextmanager
def open_loader(
    kube: Kube, cluster: ClusterConfig, source: Manifest, where: str, folder: str = ""
) -> Iterator[LoaderClient]:
    """Run a loader on a volume (`source`, as in a pod) until the block ends.

    `folder` is a part of the volume, created if missing; messages name the volume `where`. Loaders
    of killed local commands are removed first. Raises ConfigError, KubeError, DataError.
    """
    check_rights(kube, RUN_LOADER)
    remove_abandoned(kube)
    mark, token = secrets.token_hex(4), secrets.token_urlsafe(32)
    token_hash = hashlib.sha256(token.encode()).hexdigest()
    task = LoaderTask(mark, describe_process(os.getpid()), token_hash, source, folder)
    settings = replace(cluster, namespace=kube.namespace)
    job, program = build_loader(load_loader_templates(), task, settings, build_loader_zip())
    with _running(kube, job, program, mark):
        pod = _wait_until_running(kube, mark, where)
        with _prolonged(kube, pod), Forward(kube, pod["metadata"]["name"], PORT) as forward:
            client = LoaderClient(forward.url, token, where)
            client.wait_until_up(lambda: _check_life(kube, mark, where))
            yield client


def remove_abandoned(kube: Kube) -> None:
    """Remove loaders whose local process is gone, and wait for the end of their pods."""
    for job in kube.list_objects(JOB, build_selector(component=LOADER)):
        metadata = job["metadata"]
        if kube.owns(job) and _is_gone(
            (metadata.get("annotations") or {}).get(MADE_BY_ANNOTATION, "")
        ):
            _remove(kube, metadata["name"], metadata["labels"].get(LOADER_LABEL, ""))


def describe_process(process_id: int) -> str:
    """Return a local process's identity, including its namespace of process ids."""
    try:
        space = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        space = 0
    return f"{socket.gethostname()}/{space}/{process_id}"


def _is_gone(made_by: str) -> bool:
    process_id = made_by.rpartition("/")[2]
    if not process_id.isdigit() or made_by != describe_process(int(process_id)):
        return False
    try:
        os.kill(int(process_id), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


@contextmanager
def _running(kube: Kube, job: Manifest, program: Manifest, mark: str) -> Iterator[None]:
    """Create a Job and the ConfigMap that it owns; always remove both."""
    selector = _select(mark)
    try:
        made = kube.create(job, selector)["metadata"]
        owner = {"apiVersion": JOB.api_version, "kind": JOB.kind}
        owner |= {name: made[name] for name in ("name", "uid")}
        program["metadata"]["ownerReferences"] = [owner]
        kube.create_once(program)
        yield
    finally:
        for one in kube.list_objects(JOB, selector):
            _remove(kube, one["metadata"]["name"], mark)


def _remove(kube: Kube, name: str, mark: str) -> None:
    """Delete a Job and wait for its pod, whose volume the next one may need exclusively."""
    kube.delete(JOB, name)
    deadline = time.monotonic() + END_SECONDS
    while mark and kube.list_objects(POD, _select(mark)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


@contextmanager
def _prolonged(kube: Kube, pod: Manifest) -> Iterator[None]:
    """Extend the deadline of a Job until the block ends."""
    name = pod["metadata"]["labels"]["job-name"]
    started = datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()
    over = threading.Event()

    def beat() -> None:
        while not over.wait(BEAT_SECONDS):
            _prolong(kube, name, kube.now() - started)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def _prolong(kube: Kube, name: str, age_seconds: float) -> None:
    seconds = max(0, round(age_seconds)) + LEASE_SECONDS
    with contextlib.suppress(KubeError):  # the next beat tries again
        kube.patch(JOB, name, {"spec": {"activeDeadlineSeconds": seconds}})


def _wait_until_running(kube: Kube, mark: str, where: str) -> Manifest:
    """Return the loader's pod once it runs; log why it is pending. Raises DataError."""
    began = beat = time.monotonic()
    pending, patience = PendingPods(kube), WaitLog(f"the data loader of {where}")
    while True:
        job = next(iter(kube.list_objects(JOB, _select(mark))), None)
        pod = next(iter(kube.list_objects(POD, _select(mark))), None)
        if pod is not None and pod["status"].get("phase") == "Running":
            return pod
        now = time.monotonic()
        if job is None or _has_ended(job, pod):
            raise _build_ending(pod, where)
        if now - began > TELL_SECONDS:
            found = pending.explain([(job, pod)]).get(job["metadata"]["name"])
            line, permanent = (found.line, found.is_permanent) if found else ("", False)
            if patience.is_over(line, permanent) or now - began > START_SECONDS:
                look = f"kubectl describe pods -n {kube.namespace} -l {_select(mark)}"
                said = f"{where}: the data loader does not start: {line or 'no reason given'}"
                raise DataError(said, kube.with_context(look))
        if now - beat > BEAT_SECONDS:
            beat = now
            _prolong(kube, job["metadata"]["name"], now - began)
        time.sleep(POLL_SECONDS)


def _check_life(kube: Kube, mark: str, where: str) -> None:
    """Raise DataError if a running loader has ended."""
    pod = next(iter(kube.list_objects(POD, _select(mark))), None)
    if pod is None or pod["status"].get("phase") in ENDED_PHASES:
        raise _build_ending(pod, where)


def _build_ending(pod: Manifest | None, where: str) -> DataError:
    why = explain_pod_end(pod) if pod else "its Job was deleted"
    return DataError(f"{where}: the data loader ended: {why or 'no output'}", HINT)


def _has_ended(job: Manifest, pod: Manifest | None) -> bool:
    over = pod is not None and pod["status"].get("phase") in ENDED_PHASES
    return over or find_condition(job, "Failed") is not None


def _select(mark: str) -> str:
    return f"{build_selector(component=LOADER)},{LOADER_LABEL}={mark}"
