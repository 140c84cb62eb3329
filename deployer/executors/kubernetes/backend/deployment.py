"""The backend's deployment in a cluster: builds manifests, creates them, waits until ready."""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, replace

from deployer.backend.db.accounts import new_key
from deployer.config.causes import Cause
from deployer.config.document import FILE_NAME
from deployer.config.kubernetes import ClusterConfig
from deployer.config.project import Project
from deployer.config.settings import BackendConfig
from deployer.errors import BackendError, ConfigError, Finding, KubeError, edit
from deployer.executors.kubernetes.diagnose.pending import PendingPods, WaitLog
from deployer.executors.kubernetes.diagnose.rights import (
    GUARD_BACKEND,
    MAKE_BACKEND,
    check_rights,
    describe_rights,
    find_missing,
)
from deployer.executors.kubernetes.manifests.build import build_secret
from deployer.executors.kubernetes.manifests.overlay import (
    REMOVED,
    ReplacedList,
    build_identity,
    encode,
    list_variables,
    overlay,
    without_none,
)
from deployer.executors.kubernetes.manifests.templates import (
    find_folder,
    find_template_image,
    load_documents,
)
from deployer.images.code_archive import build_backend_archive, split_archive
from deployer.images.image import find_pushed
from deployer.kube.client import Kube
from deployer.kube.objects import (
    BACKEND,
    CONFIG_MAP,
    NO_OWNER,
    POD,
    QUEUE_LABEL,
    SECRET,
    STATEFUL_SET,
    Manifest,
    build_hash,
    build_labels,
    build_selector,
    find_condition,
    read_owner,
)

NAME = "sweep-backend"
KEY_SECRET = f"{NAME}-key"
KEY_FIELD = "key"
PORT = 8080
START_SECONDS = 300.0  # image pull, new disk, perhaps a new node
POLL_SECONDS = 1.0
HOPELESS_RESTARTS = 2
# Exit codes for an older Python (78), an incomplete library (1), and a program that cannot be run
# (the runtimes' codes). Our server never ends with these: backend/server/foreground.py.
NO_SUCH_PYTHON = (1, 78, 126, 127, 128)
LOG = logging.getLogger(__name__)
SELECTOR: str = build_selector(component=BACKEND)


def build_url(name: str, namespace: str) -> str:
    """Return the backend's address for agents: a name that is valid in any cluster domain."""
    return f"http://{name}.{namespace}.svc:{PORT}"


def load_backend_templates() -> tuple[Manifest, ...]:
    """Read k8s/backend.yaml: claim, Service, NetworkPolicy, ConfigMap, StatefulSet."""
    return tuple(load_documents(find_folder() / "backend.yaml"))


def build_backend(
    templates: Sequence[Manifest], program: bytes, settings: BackendConfig, cluster: ClusterConfig
) -> tuple[Manifest, ...]:
    """Return the backend's manifests without its key; `program` is the archive of its server.

    Image and interpreter default to those of agents. Raises ConfigError without an image.
    """
    labels = {**cluster.labels, **build_labels(BACKEND)}
    metadata = {"namespace": cluster.namespace or REMOVED, "labels": labels}
    documents = [overlay(one, {"metadata": metadata}) for one in templates]
    claim, service, policy, config_map, stateful_set = documents
    whole = build_hash(program, config_map["data"]["__main__.py"].encode())
    config_maps = [
        {
            **overlay(config_map, {"metadata": {"name": f"{NAME}-{whole}-{number}"}}),
            "binaryData": {f"program.tar.gz.{number:02}": encode(part)},
        }
        for number, part in enumerate(split_archive(program))
    ]
    # An empty name is different: no class, not even the cluster's default.
    storage_class = REMOVED if settings.storage_class is None else settings.storage_class
    patch = {
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": settings.size}},
    }
    claim = dict(overlay(claim, {"spec": patch}))
    stateful_set = _build_stateful_set(stateful_set, config_maps, settings, cluster)
    return claim, service, policy, *config_maps, stateful_set


def _build_stateful_set(
    template: Manifest,
    config_maps: Sequence[Manifest],
    settings: BackendConfig,
    cluster: ClusterConfig,
) -> Manifest:
    image = settings.image or cluster.image
    if image is None:
        hint = "backend: {image: …}: an image with Python 3.11 or newer, such as python:3.13-slim"
        raise ConfigError(f"{FILE_NAME}: backend.image", "is missing", hint)
    known = template["spec"]["template"]["spec"]["containers"][0]
    wanted = {"cpu": settings.cpu, "memory": settings.memory}
    container = {
        "name": known["name"],
        "image": image,
        "imagePullPolicy": cluster.image_pull_policy,
        "command": [settings.python or cluster.python, *known["command"][1:]],
        # Here the template's variables override the user's.
        "env": ReplacedList(overlay(list_variables(settings.env), known["env"], "env")),
        "resources": {"requests": wanted, "limits": wanted},
    }
    sources = [{"configMap": {"name": one["metadata"]["name"]}} for one in config_maps]
    pod = {
        **build_identity(cluster),
        "nodeSelector": settings.node_selector,
        "tolerations": [without_none(asdict(one)) for one in settings.tolerations],
        "containers": [container],
        "volumes": [{"name": "program", "projected": {"sources": sources}}],
    }
    patch = {
        "metadata": {"labels": {QUEUE_LABEL: settings.queue}},
        "spec": {"template": {"metadata": {"labels": template["metadata"]["labels"]}, "spec": pod}},
    }
    return dict(overlay(template, patch))


def is_up(stateful_set: Manifest) -> bool:
    """Return True if the pod of the newest revision is ready."""
    status, metadata = stateful_set.get("status") or {}, stateful_set["metadata"]
    return (
        status.get("observedGeneration") == metadata.get("generation")
        and status.get("readyReplicas") == 1
        and status.get("currentRevision") == status.get("updateRevision")
    )


@dataclass(frozen=True)
class Absence:
    """Why the backend does not serve; empty while its server starts.

    `reason` is why its pod does not run, `exit_code` its container's last exit code, `restarts` its
    restart count.
    """

    words: str = ""
    reason: Finding | None = None
    exit_code: int | None = None
    restarts: int = 0

    @property
    def hopeless(self) -> bool:
        return self.restarts >= HOPELESS_RESTARTS or bool(self.reason and self.reason.is_permanent)


def wait_until_up(kube: Kube, name: str) -> None:
    """Wait until the backend's StatefulSet is ready, and log each reason once.

    Raises KubeError, and BackendError if it does not become ready.
    """
    deadline, pending = time.monotonic() + START_SECONDS, PendingPods(kube)
    patience = WaitLog("the embedded backend")
    while True:
        stateful_set = kube.get(STATEFUL_SET, name)
        if stateful_set is not None and is_up(stateful_set):
            return
        why = _explain(pending, name, kube.get(POD, f"{name}-0"))
        if patience.is_over(why.words, why.hopeless) or time.monotonic() > deadline:
            said = f"the embedded backend in namespace {kube.namespace} does not start"
            raise BackendError(f"{said}: {why.words}", choose_hint(kube, name, why))
        time.sleep(POLL_SECONDS)


def explain_absence(kube: Kube, name: str) -> Absence:
    """Return why the backend does not serve. Raises KubeError."""
    return _explain(PendingPods(kube), name, kube.get(POD, f"{name}-0"))


def choose_hint(kube: Kube, name: str, why: Absence) -> str:
    if why.exit_code in NO_SUCH_PYTHON:
        return f"{edit('backend', 'image: …')}: an image with Python 3.11 or newer"
    if why.reason and why.reason.code is Cause.CLAIM_UNBOUND:
        hint = f"{edit('backend', 'storage_class: …')}; kubectl get storageclass"
    else:
        hint = f"kubectl describe pod {name}-0 -n {kube.namespace}"
    return kube.with_context(hint)


def read_end(pod: Manifest | None) -> Absence | None:
    """Return how the pod's container last ended; None if it is ready, or never ended; pure."""
    if pod is None or find_condition(pod, "Ready"):
        return None
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (one.get("lastState") or {}).get("terminated")
        if ended:
            words = str(ended.get("message") or "").strip().splitlines()[-1:]
            said = words[0] if words else f"its server exited with {ended.get('exitCode')}"
            return Absence(said, None, ended.get("exitCode"), one.get("restartCount", 0))
    return None


def _explain(pending: PendingPods, name: str, pod: Manifest | None) -> Absence:
    if ended := read_end(pod):
        return ended
    if pod is None or (pod.get("status") or {}).get("phase") != "Running":
        reason = pending.explain([({"metadata": {"name": name}}, pod)]).get(name)
        return Absence(reason.line, reason) if reason else Absence()
    return Absence()  # its server is starting, which takes seconds


@dataclass(frozen=True)
class ClusterBackend:
    """A backend in a cluster: `url` is its address for agents, `pod` its pod."""

    name: str
    namespace: str
    ready: bool
    key: str = field(repr=False)

    @property
    def url(self) -> str:
        return build_url(self.name, self.namespace)

    @property
    def pod(self) -> str:
        return f"{self.name}-0"


def find_backend(kube: Kube) -> ClusterBackend | None:
    """Return the backend in the namespace, None if there is none. Raises KubeError."""
    found = [
        one
        for one in kube.list_objects(STATEFUL_SET, SELECTOR)
        if not one["metadata"].get("deletionTimestamp")
    ]
    if not found:
        return None
    secret = kube.get(SECRET, KEY_SECRET)
    encoded = ((secret or {}).get("data") or {}).get(KEY_FIELD)
    if not encoded:
        raise BackendError(
            f"Secret {KEY_SECRET} in namespace {kube.namespace} has no key",
            "deployer backend up --on kubernetes gives the backend a new one",
        )
    key = base64.b64decode(encoded).decode().strip()
    return ClusterBackend(found[0]["metadata"]["name"], kube.namespace, is_up(found[0]), key)


def is_made(kube: Kube) -> bool:
    """Return True if the namespace has a backend, which `up` leaves unchanged."""
    try:
        return bool(kube.list_objects(STATEFUL_SET, SELECTOR))
    except KubeError as error:
        if not error.forbidden:
            raise
        return False


def ensure_backend(kube: Kube, project: Project, on: str, *, anew: bool = False) -> ClusterBackend:
    """Return the backend once it is ready; create it from deployer.yaml if there is none.

    With `anew`, also update an existing one to match the file. Raises ConfigError, KubeError, and
    BackendError if it does not become ready.
    """
    found = None if anew else _find_allowed(kube, on)
    if found is None:
        check_rights(kube, MAKE_BACKEND, on)
        _check_owner(kube)
        done = "matches deployer.yaml" if anew and is_made(kube) else "is created"
        _make(kube, project)
        LOG.info(f"the embedded backend {done} in namespace {kube.namespace}")
        found = require_backend(kube, on)
    elif not found.ready:
        said = "the embedded backend keeps its original settings"
        LOG.info(f"{said}; to apply edits of deployer.yaml: deployer backend up --on {on}")
    if not found.ready:
        try:
            wait_until_up(kube, found.name)
        except KeyboardInterrupt:
            said = f"the embedded backend in namespace {kube.namespace} keeps running; to stop it"
            LOG.info(f"\n{said}: deployer backend down --on {on}")
            raise
    return replace(found, ready=True)


def require_backend(kube: Kube, on: str) -> ClusterBackend:
    """Return the existing backend. Raises BackendError if there is none."""
    found = find_backend(kube)
    if found is None:
        raise BackendError(
            f"no embedded backend found in namespace {kube.namespace}",
            f"deployer backend up --on {on}",
        )
    return found


def _find_allowed(kube: Kube, on: str) -> ClusterBackend | None:
    try:
        return find_backend(kube)
    except KubeError as error:
        if error.forbidden:
            check_rights(kube, MAKE_BACKEND, on)  # names all missing rights
        raise


def _check_owner(kube: Kube) -> None:
    """Refuse to change the server of another owner; raises BackendError."""
    for one in kube.list_objects(STATEFUL_SET, SELECTOR):
        if not kube.owns(one):
            owner = read_owner(one)
            raise BackendError(
                f"the embedded backend in namespace {kube.namespace} belongs to "
                f"{owner.name if owner else NO_OWNER} and stays unchanged",
                "`up` uses it without changing it",
            )


def _make(kube: Kube, project: Project) -> None:
    """Apply everything, the StatefulSet last: its presence means the rest exists.

    An existing claim and key stay.
    """
    cluster = replace(project.kubernetes, namespace=kube.namespace)
    settings = project.backend
    if settings.image is None:
        cluster = replace(cluster, image=find_image(project))
    templates, program = load_backend_templates(), build_backend_archive()
    claim, service, policy, *config_maps, stateful_set = build_backend(
        templates, program, settings, cluster
    )
    kube.create_once(claim)
    pod = f"{stateful_set['metadata']['name']}-0"
    if kube.create_once(_build_key_secret(kube, cluster)) and kube.get(POD, pod):
        kube.delete(POD, pod)  # restart: a server reads its key at start
    if missing := find_missing(kube, GUARD_BACKEND):
        said = (
            f"no NetworkPolicy guards the embedded backend: you may not {describe_rights(missing)}"
        )
        LOG.info(f"{said} (docs/threats.md)")
    else:
        kube.apply(policy)
    for one in config_maps:
        kube.create_once(one)
    for one in (service, stateful_set):
        kube.apply(one)
    _delete_older(kube, {one["metadata"]["name"] for one in config_maps})


def _delete_older(kube: Kube, kept: Collection[str]) -> None:
    """Delete our programs of other versions, which the pod no longer uses."""
    if kube.is_allowed("delete", CONFIG_MAP):
        for one in kube.list_objects(CONFIG_MAP, SELECTOR):
            if kube.owns(one) and one["metadata"]["name"] not in kept:
                kube.delete(CONFIG_MAP, one["metadata"]["name"])


def find_image(project: Project) -> str | None:
    """Return the agents' image: the named one, else the one pushed from this folder."""
    named = project.kubernetes.image
    if named or not project.image.repository:
        return named or find_template_image(project.kubernetes, project.folder)
    return find_pushed(project.image, project.folder, project.environment)


def _build_key_secret(kube: Kube, cluster: ClusterConfig) -> Manifest:
    secret = build_secret(KEY_SECRET, kube.namespace, {KEY_FIELD: new_key()})
    secret["metadata"]["labels"] = {**cluster.labels, **build_labels(BACKEND)}
    return secret
