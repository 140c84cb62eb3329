"""What `up` refuses before it makes anything, found by the questions of the doctor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from deployer.errors import KubeError
from deployer.executors.checks import Check, Question, examine_all
from deployer.executors.kubernetes.data.claims import check_claims
from deployer.executors.kubernetes.examination.case import Case
from deployer.executors.kubernetes.examination.objects import list_object_questions
from deployer.executors.kubernetes.examination.queue import examine_priority, examine_queue
from deployer.executors.kubernetes.rights import check_rights
from deployer.executors.kubernetes.waiting.admission import check_admission
from deployer.executors.kubernetes.waiting.room import check_room
from deployer.kube.client import Kube


def list_checks(
    kube: Kube, claims: Mapping[str, str], build: Callable[[], Case]
) -> Sequence[Check]:
    """Return what is asked of a cluster for agents whose Case is built; the last is a dry run.

    `claims` are the data sets, by the name of their claim.
    """
    where = f"namespace {kube.namespace}"
    return (
        Check("rights", where, lambda: check_rights(kube), "agents may run there"),
        Check("data", where, lambda: check_claims(kube, claims), "the data sets are there"),
        Check("objects", where, lambda: check_needed(build()), "what they need is there"),
        Check("admission", where, lambda: _check_admission(build()), "agents are admitted"),
    )


def _check_admission(case: Case) -> None:
    assert case.job
    check_admission(case.kube, case.job)
    check_room(case.kube, case.own)


def check_needed(case: Case) -> None:
    """Raise KubeError if the queue is missing, or an object that agents cannot start without.

    Others may have to make it: what is unknown, or not told to tenants, is no reason to refuse.
    """
    wrong = [one for one in examine_all(list(_list_questions(case))) if one.is_error]
    if wrong:
        raise KubeError(f"{wrong[0].subject} {wrong[0].message}", wrong[0].fix)


def _list_questions(case: Case) -> Iterator[Question]:
    section = case.section
    yield Question("queue", f"queue {section.queue}", lambda: examine_queue(case))
    yield Question("queue-priority", "queue", lambda: examine_priority(case))
    yield from list_object_questions(case)
