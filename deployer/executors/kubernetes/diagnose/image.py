"""Whether nodes can pull the agents' image: asked of its registry, with the pull secret."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from deployer.config.sections.image_reference import DOCKER_HUB, Repository, parse_image
from deployer.config.sections.kubernetes_parts import Gpu
from deployer.errors import ImageError, KubeError
from deployer.executors.kubernetes.agents.gpu_products import GpuProducts
from deployer.executors.kubernetes.diagnose.case import Case
from deployer.executors.kubernetes.diagnose.placement import find_nearest
from deployer.findings import Finding, Severity, edit, right, unknown, warning
from deployer.images.architectures import OLDER, explain_mismatch, read_architectures
from deployer.images.builders import choose_builder
from deployer.images.image import find_ca, find_pushed, predict_image_labels, read_labels
from deployer.images.registry import Registry
from deployer.images.registry_credentials import DOCKER_HUB_KEY, Credentials
from deployer.kube.kinds import SECRET

Manifest = Mapping[str, Any]
FIELD = ".dockerconfigjson"
PULL_TYPES = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")
NO_LOGIN = (401, 403)
OWN_FILE = '"$HOME/.docker/config.json"'


def examine_image(case: Case) -> Iterator[Finding]:
    """Ask the registry of the image that deployer.yaml names. Raises KubeError."""
    image = case.section.image
    if image is None and case.image.repository:
        yield _examine_built(case)
        yield from compare_gpus(case, lambda: predict_image_labels(case.image, case.folder))
    if image is None or case.section.image_pull_policy == "Never":
        return  # what nodes have they need not pull
    repository, tag = parse_image(image)
    logins: list[Credentials] = []
    useless: list[Finding] = []
    for name in case.section.image_pull_secrets:
        try:
            secret = case.kube.get(SECRET, name)
        except KubeError as error:
            if not error.forbidden:
                raise
            said = "may not be read: the image is not asked for"
            yield unknown("pull-secret", f"Secret {name}", said)
            return
        trouble = judge_secret(case, name, secret)
        useless += [trouble] if trouble else []
        logins += [read_login(secret, repository)] if secret and not trouble else []
    ca = find_ca(case.image, case.environment)
    # A kubelet tries each, too.
    for login in [*filter(None, logins)] or [Credentials()]:
        registry = Registry(repository, login, ca, case.image.plain_http)
        found = _ask(case, registry, login, tag)
        if found.code != "pull-secret":
            break
    yield from weigh(found, useless)
    if found.severity is Severity.OK:
        yield from compare_gpus(case, lambda: read_labels(registry, tag))


def compare_gpus(case: Case, read: Callable[[], Mapping[str, str]]) -> Iterator[Finding]:
    """Name GPUs for which the image's PyTorch has no kernels, where both are known."""
    gpus = _list_gpus(case)
    labels = read() if gpus else {}
    for gpu in gpus:
        if said := explain_mismatch(read_architectures(labels), gpu):
            remedy = OLDER if case.section.image is None else ""
            yield unknown("gpu-architecture", f"GPU {gpu}", said, remedy)


def _list_gpus(case: Case) -> Sequence[str]:
    """Return the GPU that deployer.yaml names, else those of the nodes, if they may be listed."""
    gpu = case.section.gpu or Gpu()
    if gpu.product or not gpu.count:
        return [gpu.product] if gpu.product and gpu.count else []
    found = GpuProducts(case.kube, gpu.product_label).read({""})
    return sorted({product for product in found.values() if product})


def weigh(found: Finding, useless: Sequence[Finding]) -> Iterator[Finding]:
    """Yield what a registry says, and how much it matters that pull secrets are useless; pure.

    A kubelet asks without them, as `found` was: they are wrong only where a login is wanted.
    """
    if found.code == "pull-secret" and useless:
        yield from useless
        return
    for one in useless:
        said = f"{one.message}: nodes pull without it, or have the image"
        yield unknown(one.code, one.subject, said, one.fix)
    yield found


def _examine_built(case: Case) -> Finding:
    """Say whether what is in the folder is pushed, else whether something here can build it.

    Raises ImageError.
    """
    subject = f"image {case.image.repository}"
    if find_pushed(case.image, case.folder, case.environment):
        return right("image", subject, "its registry has what is in this folder")
    builder = choose_builder(case.image.builder, case.environment)
    return right("image", subject, f"`up` builds it with {builder.name}, and pushes it")


def judge_secret(case: Case, name: str, secret: Manifest | None) -> Finding | None:
    """Say why nodes have no use for a pull secret; None if they have; pure."""
    if secret is None:
        said = "the pull secret is missing"
        return warning("pull-secret", f"Secret {name}", said, _make_secret(case, name))
    return judge_type(case, secret)


def judge_type(case: Case, secret: Manifest) -> Finding | None:
    """Say that nodes ignore a Secret of another type than a pull secret's; pure."""
    kind = secret.get("type", "Opaque")
    if kind in PULL_TYPES:
        return None
    name = secret["metadata"]["name"]
    said = f"is of type {kind}, which nodes ignore: a pull secret's is {PULL_TYPES[0]}"
    return warning("pull-secret", f"Secret {name}", said, _make_another(case, name))


def read_login(secret: Manifest, repository: Repository) -> Credentials:
    """Return a pull secret's login for a registry; none if it has none that is read here; pure.

    The kubelet reads more: other names of the registry, and tokens in the place of a password.
    """
    try:
        content = json.loads(base64.b64decode((secret.get("data") or {})[FIELD]))
        key = DOCKER_HUB_KEY if repository.host == DOCKER_HUB else repository.host
        pair = content["auths"][key]
        user, _, password = base64.b64decode(pair.get("auth", "")).decode().partition(":")
    except (KeyError, ValueError, TypeError):
        return Credentials()
    source = f"Secret {secret['metadata']['name']}"
    user, password = pair.get("username") or user, pair.get("password") or password
    return Credentials(user, password, source) if user and password else Credentials()


def _ask(case: Case, registry: Registry, login: Credentials, tag: str) -> Finding:
    subject = f"image {case.section.image}"
    try:
        if registry.get_digest(tag):
            return right("image", subject, "its registry has it")
        near = find_nearest(tag, registry.list_tags())
    except ImageError as error:
        return _judge_refusal(case, registry.repository, login, error)
    if near:
        image = edit("kubernetes", f"image: {registry.repository}:{near}")
        return warning("image", subject, f"the registry has no tag {tag}; there is {near}", image)
    return warning(
        "image", subject, "the registry does not have it", f"docker push {case.section.image}"
    )


def _judge_refusal(case: Case, where: Repository, login: Credentials, error: ImageError) -> Finding:
    """Say what a registry's refusal means for nodes, which may have a login of their own."""
    secrets, subject = case.section.image_pull_secrets, f"image {case.section.image}"
    if error.status == 404:
        return warning("image", subject, f"its registry has no repository {where.path}", error.hint)
    if error.status not in NO_LOGIN:
        return unknown("image", subject, f"is not asked for from here: {error.message}", error.hint)
    if login:
        another = _make_another(case, login.source.rpartition(" ")[2])
        return warning("pull-secret", subject, f"the login of {login.source} is refused", another)
    if secrets:
        said = f"its registry wants a login, and none in Secret {', '.join(secrets)} is read here"
        return unknown("pull-secret", subject, f"{said}: nodes may find one")
    said = "its registry wants a login, and deployer.yaml names no pull secret"
    remedy = edit("kubernetes", "image_pull_secrets: [NAME]")
    return unknown("pull-secret", subject, f"{said}: nodes may have one of their own", remedy)


def _make_another(case: Case, name: str) -> str:
    """Return the remedy that makes a pull secret beside one that others may use as it is."""
    new = f"{name}-pull"
    return f"{_make_secret(case, new)}; {edit('kubernetes', f'image_pull_secrets: [{new}]')}"


def _make_secret(case: Case, name: str) -> str:
    """Return the command that makes a pull secret of what `docker login` left here."""
    kind = f"--type=kubernetes.io/dockerconfigjson --from-file={FIELD}={OWN_FILE}"
    return f"kubectl create secret generic {name} {case.where} {kind}"
