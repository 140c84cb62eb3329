"""What the agents' pods need beside their image: objects they refer to, and classes of claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from deployer.config.sections.data import DataSet
from deployer.executors.checks import Check
from deployer.executors.kubernetes.backend.removal import find_data
from deployer.executors.kubernetes.data.mounts import list_claims
from deployer.executors.kubernetes.data.volumes import INLINE_HINT
from deployer.executors.kubernetes.diagnose import rules
from deployer.executors.kubernetes.diagnose.case import Case, list_given, write_inline
from deployer.executors.kubernetes.diagnose.claims import describe_absent_class
from deployer.executors.kubernetes.diagnose.placement import find_nearest
from deployer.executors.kubernetes.diagnose.references import (
    Reference,
    describe_missing,
    list_references,
)
from deployer.executors.kubernetes.diagnose.view import HIDDEN
from deployer.executors.kubernetes.keys.key_secret import WANDB_SECRET
from deployer.findings import EDIT, Finding, Severity, right, unknown, warning, wrong
from deployer.kube.kinds import CLAIM, CONFIG_MAP, SECRET, STORAGE_CLASS, VOLUME

Manifest = Mapping[str, Any]
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
WAITS_FOR_POD = "WaitForFirstConsumer"
OF_BACKEND = "backend: {storage_class: %s}"
CODES = {SECRET: "secret", CONFIG_MAP: "config-map", CLAIM: "claim"}  # of the doctor's findings


def list_need_checks(case: Case) -> Iterator[Check]:
    """Yield a check of each object that a pod needs and `up` does not create.

    A missing object is a warning: another process may create it.
    """
    if case.pod is None:
        return
    references = list_references(case.pod["spec"])
    if nfs := [one.name for one in references if one.kind == CLAIM and one in case.own]:
        yield Check("nfs", "nfs", lambda: [_examine_nfs(case, nfs)])
    data = {Reference(CLAIM, name) for name in list_claims(case.section)}
    for one in references:
        if not one.key and one not in case.own | data:
            keys = [other for other in references if other.key and other[:2] == one[:2]]
            ask = partial(_examine, case, one, keys)
            yield Check(CODES[one.kind], f"{one.kind.kind} {one.name}", ask)


def judge_claim(case: Case, claim: Manifest, storage_class: Manifest | None) -> Finding:
    """Say whether a claim is bound, and whether agents on several nodes can share it; pure.

    One that is not bound is judged by its class, None if it is missing. One that is HIDDEN may wait
    for a pod.
    """
    name, phase = claim["metadata"]["name"], (claim.get("status") or {}).get("phase")
    spec = claim.get("spec") or {}
    subject, said = f"PersistentVolumeClaim {name}", "is not bound"
    look = rules.UNBOUND.found(name=name, why="", where=case.where).fix
    if phase == "Lost":
        return warning("claim", subject, "has lost its volume", look)
    if phase == "Bound":
        modes = spec.get("accessModes") or ()
        if case.pods > 1 and not {"ReadWriteMany", "ReadOnlyMany"} & set(modes):
            said = f"is bound for one node ({', '.join(modes)}): agents on others wait"
            return unknown("claim", subject, said, look)
        return right("claim", subject, "is bound")
    wanted = spec.get("storageClassName")
    if storage_class is None:
        if not wanted:  # a volume that an administrator makes would be bound to it
            said = f"{said}: it names no StorageClass, and no volume fits"
            return unknown("claim", subject, said, look)
        return warning("claim", subject, f"{said}{describe_absent_class(wanted)}", look)
    if storage_class == HIDDEN:
        said = f"{said}: it waits for a volume of StorageClass {wanted}"
        return unknown("claim", subject, said, look)
    if storage_class.get("volumeBindingMode") == WAITS_FOR_POD:
        return right("claim", subject, "is bound when the first pod uses it")
    return unknown("claim", subject, "is not bound yet", look)


def _examine(case: Case, one: Reference, keys: Sequence[Reference]) -> Iterator[Finding]:
    subject, found = f"{one.kind.kind} {one.name}", case.view.get(one.kind, one.name)
    variables = {
        other.key: env for env, other in case.section.secrets.items() if other.name == one.name
    }
    if found is None:
        missing = describe_missing(one, case.where, variables)
        fix = "deployer secret set" if one.name == WANDB_SECRET else missing.fix
        yield warning(CODES[one.kind], subject, "is missing", fix)
    elif found == HIDDEN:
        yield unknown(CODES[one.kind], subject, "may not be read")
    elif one.kind == CLAIM:
        named = (found.get("spec") or {}).get("storageClassName")
        storage_class = case.view.get(STORAGE_CLASS, named) if named else None
        yield judge_claim(case, found, storage_class)
    else:
        there = {**(found.get("data") or {}), **(found.get("binaryData") or {})}
        lacking = [other for other in keys if other.key not in there]
        for other in lacking:
            missing = describe_missing(other, case.where, variables)
            said = missing.message.removeprefix(f"{subject} ")
            yield warning(f"{CODES[one.kind]}-key", subject, said, missing.fix)
        if not lacking:
            yield right(CODES[one.kind], subject, "is there")


def _examine_nfs(case: Case, claims: Sequence[str]) -> Finding:
    """Say whether the claims on NFS folders are there, or can be made with their volumes."""
    found = {name: case.view.get(CLAIM, name) for name in claims}
    if HIDDEN in found.values():
        return unknown("nfs", "nfs", "its claims may not be read")
    missing = [name for name, one in found.items() if one is None]
    if missing and not case.kube.in_namespace("").is_allowed("create", VOLUME):
        said = "is missing, and you may not create the PersistentVolume of its `nfs:` folder"
        subject = f"PersistentVolumeClaim {', '.join(missing)}"
        return wrong("nfs", subject, said, INLINE_HINT)
    return right("nfs", "nfs", "its PersistentVolumes are there, or you may create them")


def examine_classes(case: Case) -> Iterator[Finding]:
    """Say whether the claims that `up` makes find their StorageClass. Raises KubeError."""
    wanted = list_storage_classes(case)
    there = case.view.list_all(STORAGE_CLASS) if wanted else []
    if there is None:
        yield unknown("storage-class", "storage", "StorageClasses may not be listed")
        return
    named = {name for name in wanted.values() if name} - {one["metadata"]["name"] for one in there}
    volumes = (case.view.list_all(VOLUME) or []) if named else []
    found = list(judge_classes(wanted, there, volumes))
    wrong = any(one.severity is Severity.WARNING for one in found)
    if wrong and OF_BACKEND in wanted and find_data(case.kube):  # its claim is there already
        del wanted[OF_BACKEND]
        found = list(judge_classes(wanted, there, volumes))
    yield from found


def list_storage_classes(case: Case) -> dict[str, str | None]:
    """Return the classes of claims that `up` makes, by the setting that names them; pure."""
    wanted: dict[str, str | None] = {}
    if case.backend:
        wanted[OF_BACKEND] = case.backend.storage_class
    for one in case.data:
        if not one.claim and not one.nfs:
            wanted[_set_class(case.data, one)] = one.storage_class
    return wanted


def judge_classes(
    wanted: Mapping[str, str | None],
    classes: Sequence[Manifest],
    volumes: Sequence[Manifest] = (),
) -> Iterator[Finding]:
    """Say whether claims find their storage class, or a free volume that names it; pure."""
    code, subject = "storage-class", "storage"
    free = [one for one in volumes if (one.get("status") or {}).get("phase") == "Available"]
    offered = {one["spec"].get("storageClassName") for one in free}
    names = sorted(one["metadata"]["name"] for one in classes)
    default = [one for one in classes if _is_default(one)]
    there = f"; there is {', '.join(names)}" if names else "; there is none"
    for setting, name in wanted.items():
        near = find_nearest(name or "", names) or next(iter(names), "")
        fix = f"{setting % near} {EDIT}" if near else "ask an administrator for a StorageClass"
        if name in offered and name not in names:
            yield right(code, subject, f"a PersistentVolume of class {name} is free")
        elif name is not None and name not in names:
            yield warning(code, subject, f"StorageClass {name} not found{there}", fix)
        elif name is None and not default:
            yield warning(code, subject, f"no StorageClass is the default{there}", fix)
        else:
            shown = name or default[0]["metadata"]["name"]
            yield right(code, subject, f"StorageClass {shown} is there")


def _set_class(sets: Sequence[DataSet], one: DataSet) -> str:
    """Return the setting of a data set's class: the whole list, as a part of it is no edit."""
    given = [
        {**list_given(each), **({"storage_class": "%s"} if each is one else {})} for each in sets
    ]
    return f"data: {write_inline(given)}".replace("%", "%%").replace("'%%s'", "%s")


def _is_default(one: Manifest) -> bool:
    return (one["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true"
