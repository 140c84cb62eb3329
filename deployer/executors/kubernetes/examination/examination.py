"""All questions about a cluster: what the rest depends on first, then everything at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from deployer.executors.checks import Check, Question, examine_all
from deployer.executors.kubernetes.backend.deployment import find_backend
from deployer.executors.kubernetes.backend.examination import describe_trouble, examine_backend
from deployer.executors.kubernetes.data.claims import check_claims
from deployer.executors.kubernetes.data.mounts import list_claims
from deployer.executors.kubernetes.examination.case import Case
from deployer.executors.kubernetes.examination.cluster import examine_access, examine_server
from deployer.executors.kubernetes.examination.image import examine_image
from deployer.executors.kubernetes.examination.nodes import examine_nodes
from deployer.executors.kubernetes.examination.objects import list_object_questions
from deployer.executors.kubernetes.examination.policy import (
    drop_repeated,
    examine_admission,
    examine_pod_security,
)
from deployer.executors.kubernetes.examination.queue import examine_priority, examine_queue
from deployer.executors.kubernetes.examination.quota import examine_limits, examine_quota
from deployer.executors.kubernetes.examination.rights import examine_rights
from deployer.findings import Finding, right, wrong
from deployer.kube.client import Kube


def examine_cluster(kube: Kube, build_case: Callable[[], Case]) -> tuple[Finding, ...]:
    """Return what is right and wrong with a cluster, leaving nothing behind.

    Of one that does not answer, and of a namespace that is not there, only what can be told:
    `build_case`, which asks the cluster too, is called once it has answered.
    """
    first = Question("cluster", f"context {kube.context}", lambda: examine_server(kube)).examine()
    if any(one.code == "cluster" for one in first):
        return first
    case = build_case()
    subject = f"namespace {case.namespace}"
    namespace = Question("namespace", subject, lambda: examine_access(case)).examine()
    questions = [*_list_cluster_questions(case)]
    if not any(one.is_error for one in namespace):
        questions += _list_namespace_questions(case)
    return drop_repeated((*first, *namespace, *examine_all(questions)))


def _list_cluster_questions(case: Case) -> Sequence[Question]:
    return (
        Question("nodes", "nodes", lambda: examine_nodes(case)),
        *(one for one in list_object_questions(case) if one.code == "storage-class"),
    )


def _list_namespace_questions(case: Case) -> Sequence[Question]:
    name = case.namespace
    image = case.section.image or case.image.repository
    objects = [one for one in list_object_questions(case) if one.code != "storage-class"]
    return (
        Question("rights", f"rights in {name}", lambda: examine_rights(case)),
        Question("quota", f"quota of {name}", lambda: examine_quota(case)),
        Question("limits", f"limit ranges of {name}", lambda: examine_limits(case)),
        Question("queue", f"queue in {name}", lambda: examine_queue(case)),
        Question("queue-priority", _name_priority(case), lambda: examine_priority(case)),
        *objects,
        *(one.question() for one in _list_data_checks(case)),
        Question("image", f"image {image}", lambda: examine_image(case)),
        Question("pod-security", f"Pod Security of {name}", lambda: examine_pod_security(case)),
        Question("admission", "admission", lambda: examine_admission(case)),
        Question("backend", f"embedded backend in {name}", lambda: _examine_backend(case)),
    )


def _name_priority(case: Case) -> str:
    return f"WorkloadPriorityClass {case.section.queue_priority}"


def _list_data_checks(case: Case) -> Iterator[Check]:
    for claim, name in list_claims(case.section).items():
        ask = partial(check_claims, case.kube, {claim: name})
        yield Check("data", f"data set {name}", ask, "its claim is there")


def _examine_backend(case: Case) -> Iterator[Finding]:
    """Say how the embedded backend of the cluster is, if it is meant and there."""
    if case.backend is None:
        return
    subject, found = "embedded backend", find_backend(case.kube)
    if found is None:
        yield right("backend", subject, "`up` makes it in the cluster")
        return
    trouble = describe_trouble(case.kube, found, examine_backend(case.kube, found))
    if trouble:
        yield wrong("backend", subject, trouble.message, trouble.hint)
    else:
        yield right("backend", subject, f"serves {found.url}")
