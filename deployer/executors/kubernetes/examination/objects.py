"""What the agents' pods refer to: Secrets and their keys, ConfigMaps, claims, accounts, classes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from deployer.config.sections.data import DataSet
from deployer.errors import KubeError
from deployer.executors.checks import Question
from deployer.executors.kubernetes.backend.removal import find_data
from deployer.executors.kubernetes.data.mounts import list_claims
from deployer.executors.kubernetes.data.volumes import INLINE_HINT
from deployer.executors.kubernetes.examination.case import Case, list_given, write_inline
from deployer.executors.kubernetes.keys.key_secret import WANDB_SECRET
from deployer.executors.kubernetes.waiting.missing_objects import HIDDEN
from deployer.executors.kubernetes.waiting.placement import find_nearest
from deployer.executors.kubernetes.waiting.references import Reference, list_references
from deployer.executors.reason import EDIT, edit
from deployer.findings import Finding, right, unknown, wrong
from deployer.kube.kinds import (
    CLAIM,
    CONFIG_MAP,
    PRIORITY_CLASS,
    SECRET,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
    VOLUME,
)

Manifest = Mapping[str, Any]
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
WAITS_FOR_POD = "WaitForFirstConsumer"
CLAIM_SIZE = "10Gi"
OF_BACKEND = "backend: {storage_class: %s}"


def list_object_questions(case: Case) -> Iterator[Question]:
    """Yield what is asked about each object that a pod needs; those made with it are left out."""
    if case.pod:
        data = {Reference(CLAIM, name) for name in list_claims(case.section)}
        references = list_references(case.pod["spec"])
        if nfs := [one.name for one in references if one.kind == CLAIM and one in case.own]:
            yield Question("nfs", "nfs", lambda: _examine_nfs(case, nfs))
        for one in references:
            if not one.key and one not in case.own | data:
                subject = f"{one.kind.kind} {one.name}"
                yield Question("object", subject, partial(_examine, case, one))
        account = case.pod["spec"].get("serviceAccountName")
        if account:
            subject = f"ServiceAccount {account}"
            yield Question("service-account", subject, lambda: _examine_account(case, account))
        priority = case.pod["spec"].get("priorityClassName")
        if priority:
            subject = f"PriorityClass {priority}"
            yield Question("priority-class", subject, lambda: _examine_priority(case, priority))
    if classes := list_storage_classes(case):
        yield Question("storage-class", "storage", lambda: _examine_classes(case, classes))


def _examine_nfs(case: Case, claims: Sequence[str]) -> Iterator[Finding]:
    """Say whether the claims on NFS folders are there, or can be made with their volumes."""
    missing = [name for name in claims if case.kube.get(CLAIM, name) is None]
    if missing and not case.kube.in_namespace("").is_allowed("create", VOLUME):
        said = "is missing, and you may not create the PersistentVolume of its `nfs:` folder"
        yield wrong("nfs", f"PersistentVolumeClaim {', '.join(missing)}", said, INLINE_HINT)
    else:
        yield right("nfs", "nfs", "its PersistentVolumes are there, or you may create them")


def _examine(case: Case, one: Reference) -> Iterator[Finding]:
    found = case.kube.get(one.kind, one.name)
    if one.kind == CLAIM and found and not _is_settled(found):
        yield judge_unbound(case, found, _read_class(case, found))
        return
    judges = {CLAIM: judge_claim, SECRET: judge_secret, CONFIG_MAP: judge_config_map}
    yield judges[one.kind](case, one.name, found)


def _is_settled(claim: Manifest) -> bool:
    return (claim.get("status") or {}).get("phase") in ("Bound", "Lost")


def _read_class(case: Case, claim: Manifest) -> Manifest | None:
    name = (claim.get("spec") or {}).get("storageClassName")
    try:
        return case.kube.get(STORAGE_CLASS, name) if name else None
    except KubeError as error:
        if not error.forbidden:
            raise
        return HIDDEN


def judge_unbound(case: Case, claim: Manifest, storage_class: Manifest | None) -> Finding:
    """Say why a claim is not bound yet, by its class, None if there is none; pure.

    A class that is HIDDEN may be one that waits for a pod: the claim alone is known.
    """
    name = claim["metadata"]["name"]
    subject, look = f"PersistentVolumeClaim {name}", f"kubectl describe pvc {name} {case.where}"
    wanted = (claim.get("spec") or {}).get("storageClassName")
    if storage_class is None:
        if not wanted:  # a volume that an administrator makes would be bound to it
            said = "is not bound: it names no StorageClass, and no volume fits"
            return unknown("claim", subject, said, look)
        said = f"is not bound: there is no StorageClass {wanted}, and no volume fits"
        return wrong("claim", subject, said, look)
    if storage_class == HIDDEN:
        said = f"is not bound: it waits for a volume of StorageClass {wanted}"
        return unknown("claim", subject, said, look)
    if storage_class.get("volumeBindingMode") == WAITS_FOR_POD:
        return right("claim", subject, "is bound when the first pod uses it")
    return unknown("claim", subject, "is not bound yet", look)


def judge_claim(case: Case, name: str, found: Manifest | None) -> Finding:
    """Say whether a claim is there, and whether agents on several nodes can share it; pure."""
    subject = f"PersistentVolumeClaim {name}"
    if found is None:
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "resources": {"requests": {"storage": CLAIM_SIZE}},
            },
        }
        make = f"kubectl create {case.where} -f - <<< '{json.dumps(claim)}'"
        return wrong("claim", subject, "is missing", make)
    phase = (found.get("status") or {}).get("phase")
    look = f"kubectl describe pvc {name} {case.where}"
    if phase == "Bound":
        modes = (found.get("spec") or {}).get("accessModes") or ()
        if case.pods > 1 and not {"ReadWriteMany", "ReadOnlyMany"} & set(modes):
            said = f"is bound for one node ({', '.join(modes)}): agents on others wait"
            return unknown("claim", subject, said, look)
        return right("claim", subject, "is bound")
    return wrong("claim", subject, "has lost its volume", look)


def judge_secret(case: Case, name: str, found: Manifest | None) -> Finding:
    """Say whether a Secret has the keys that agents read; pure."""
    subject = f"Secret {name}"
    keys = {one.key: env for env, one in case.section.secrets.items() if one.name == name}
    if found is None:
        if name == WANDB_SECRET:
            return wrong("secret", subject, "is missing", "deployer secret create")
        values = " ".join(f'--from-literal={key}="${env}"' for key, env in keys.items())
        make = f"kubectl create secret generic {name} {case.where} {values or '--from-file=.'}"
        return wrong("secret", subject, "is missing", make)
    lacking = [key for key in keys if key not in (found.get("data") or {})]
    if lacking:
        pairs = ",".join(f'\\"{key}\\":\\"${keys[key]}\\"' for key in lacking)
        put = f'kubectl patch secret {name} {case.where} -p "{{\\"stringData\\":{{{pairs}}}}}"'
        return wrong("secret-key", subject, f"has no key {', '.join(lacking)}", put)
    return right("secret", subject, "is there")


def judge_config_map(case: Case, name: str, found: Manifest | None) -> Finding:
    """Say whether a ConfigMap is there; pure."""
    subject = f"ConfigMap {name}"
    if found is None:
        make = f"kubectl create configmap {name} {case.where} --from-file=."
        return wrong("config-map", subject, "is missing", make)
    return right("config-map", subject, "is there")


def _examine_account(case: Case, name: str) -> Iterator[Finding]:
    subject = f"ServiceAccount {name}"
    if case.kube.get(SERVICE_ACCOUNT, name) is not None:
        yield right("service-account", subject, "is there")
        return
    make = f"kubectl create serviceaccount {name} {case.where}"
    if not case.kube.is_allowed("create", SERVICE_ACCOUNT):
        make = f"ask an administrator: {make}"
    yield wrong("service-account", subject, "is missing", make)


def _examine_priority(case: Case, name: str) -> Iterator[Finding]:
    subject = f"PriorityClass {name}"
    there = [one["metadata"]["name"] for one in case.kube.list_objects(PRIORITY_CLASS)]
    if name in there:
        yield right("priority-class", subject, "is there")
        return
    own = sorted(one for one in there if not one.startswith("system-"))
    near = find_nearest(name, own) or "null"
    there_is = f"; there is {', '.join(own)}" if own else ""
    said = f"is missing{there_is}"
    yield wrong("priority-class", subject, said, edit("kubernetes", f"priority_class: {near}"))


def list_storage_classes(case: Case) -> dict[str, str | None]:
    """Return the classes of claims that `up` makes, by the setting that names them; pure."""
    wanted: dict[str, str | None] = {}
    if case.backend:
        wanted[OF_BACKEND] = case.backend.storage_class
    for one in case.data:
        if not one.claim and not one.nfs:
            wanted[_set_class(case.data, one)] = one.storage_class
    return wanted


def _set_class(sets: Sequence[DataSet], one: DataSet) -> str:
    """Return the setting of a data set's class: the whole list, as a part of it is no edit."""
    given = [
        {**list_given(each), **({"storage_class": "%s"} if each is one else {})} for each in sets
    ]
    return f"data: {write_inline(given)}".replace("%", "%%").replace("'%%s'", "%s")


def _examine_classes(case: Case, wanted: Mapping[str, str | None]) -> Iterator[Finding]:
    there = case.kube.list_objects(STORAGE_CLASS)
    if find_data(case.kube):  # the backend's claim, which is there already
        wanted = {setting: name for setting, name in wanted.items() if setting != OF_BACKEND}
    named = {name for name in wanted.values() if name} - {one["metadata"]["name"] for one in there}
    yield from judge_classes(wanted, there, case.kube.list_objects(VOLUME) if named else [])


def judge_classes(
    wanted: Mapping[str, str | None],
    classes: list[dict[str, Any]],
    volumes: Sequence[Manifest] = (),
) -> Iterator[Finding]:
    """Say whether claims find their storage class, or a free volume that names it; pure."""
    free = [one for one in volumes if (one.get("status") or {}).get("phase") == "Available"]
    offered = {one["spec"].get("storageClassName") for one in free}
    names = sorted(one["metadata"]["name"] for one in classes)
    default = [one for one in classes if _is_default(one)]
    there = f"; there is {', '.join(names)}" if names else "; there is none"
    for setting, name in wanted.items():
        near = find_nearest(name or "", names) or next(iter(names), "")
        remedy = f"{setting % near} {EDIT}" if near else "ask an administrator for a StorageClass"
        if name in offered and name not in names:
            yield right("storage-class", "storage", f"a PersistentVolume of class {name} is free")
        elif name is not None and name not in names:
            said = f"there is no StorageClass {name}{there}"
            yield wrong("storage-class", "storage", said, remedy)
        elif name is None and not default:
            said = f"no StorageClass is the default{there}"
            yield wrong("storage-class", "storage", said, remedy)
        else:
            shown = name or default[0]["metadata"]["name"]
            yield right("storage-class", "storage", f"StorageClass {shown} is there")


def _is_default(one: Manifest) -> bool:
    return (one["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true"
