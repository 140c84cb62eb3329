"""The container of an agent's pod for this machine, from the manifests that `plan` prints; pure.

What a machine cannot give as the cluster does is named in a line of `left_out`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deployer.config.redaction import is_secret_name
from deployer.executors.kubernetes.manifests.fields import Manifest
from deployer.executors.kubernetes.manifests.job import find_container
from deployer.images.containers import Container, ContainerPlan, Machine, Mount
from deployer.kube.kinds import CONFIG_MAP, JOB, kind_of
from deployer.kube.quantities import parse_quantity, read_quantity

SHARED_MEMORY = "/dev/shm"
REFERENCE = re.compile(r"\$\$|\$\(([^)\s]+)\)")
KINDS = {
    "persistentVolumeClaim": ("claimName", "PersistentVolumeClaim"),
    "nfs": ("server", "NFS folder of"),
    "secret": ("secretName", "Secret"),
    "configMap": ("name", "ConfigMap"),
    "hostPath": ("path", "node's folder"),
}
CLEAR = "--clear"  # of the supervisor
KINDS_OF_KEYS = {"secretKeyRef": "Secret", "configMapKeyRef": "ConfigMap"}
# What every rehearsal lacks, so that it is said even where nothing else is missing.
ALWAYS = "the node, its GPU driver, the pod's network and its ServiceAccount are the cluster's"


def build_container(
    manifests: Iterable[Manifest],
    machine: Machine,
    secrets: Mapping[str, Mapping[str, str]],
    data: Mapping[str, Path],
) -> ContainerPlan:
    """Return the container of the first Job of an agent, as this machine can run it.

    `secrets` has the values of our own Secret by its name and key, `data` the folders of data sets
    by volume. Everything else that the manifests name and do not contain is the cluster's: an
    empty folder stands for a volume, a variable of this machine for one that comes from a Secret.
    """
    documents = list(manifests)
    job = next(one for one in documents if kind_of(one) == JOB)
    container = find_container(job)
    assert container is not None  # templates.py has checked the template
    maps = {one["metadata"]["name"]: _read_map(one) for one in documents if _is_map(one)}
    sources = _Sources(maps, secrets, data)
    return _Translation(job["spec"]["template"], container, machine, sources).build()


@dataclass(frozen=True)
class _Sources:
    """The content of volumes: files of ConfigMaps, values of Secrets, folders of data sets."""

    maps: Mapping[str, Mapping[str, bytes]]
    secrets: Mapping[str, Mapping[str, str]] = field(repr=False)
    data: Mapping[str, Path]


class _Translation:
    """One pod on its way to a container; collects what is left out."""

    def __init__(
        self,
        template: Manifest,
        container: Manifest,
        machine: Machine,
        sources: _Sources,
    ) -> None:
        self._metadata: Manifest = template.get("metadata") or {}
        self._pod: Manifest = template["spec"]
        self._container = container
        self._machine = machine
        self._sources = sources
        self._lines: list[str] = []
        self._folders: list[Path] = []
        self._files: dict[Path, bytes] = {}

    def build(self) -> ContainerPlan:
        one, pod, machine = self._container, self._pod, self._machine
        variables, secrets = self._split_environment()
        mounts, memory = self._list_mounts()
        host_ipc = bool(pod.get("hostIPC"))
        shared = None if host_ipc else memory.pop(SHARED_MEMORY, None)
        both = {**(pod.get("securityContext") or {}), **(one.get("securityContext") or {})}
        user, group = both.get("runAsUser"), both.get("runAsGroup")
        capabilities = both.get("capabilities") or {}
        words = [*(one.get("command") or ()), *(one.get("args") or ())]
        self._note_others()
        container = Container(
            image=one["image"],
            command=tuple(words),
            clear=(*words, CLEAR),
            user=":".join(str(part) for part in (user, group) if part is not None),
            group=str(both["fsGroup"]) if "fsGroup" in both else "",
            folder=one.get("workingDir") or "",
            environment=variables,
            secrets=secrets,
            secrets_file=machine.folder / "secrets.json",
            mounts=tuple(mounts),
            memory_mounts=memory,
            shared_memory_bytes=shared,
            cpus=self._limit("cpu", machine.cpus),
            memory_bytes=_round(self._limit("memory", machine.memory_bytes)),
            gpus=self._count_gpus(),
            dropped=tuple(capabilities.get("drop") or ()),
            added=tuple(capabilities.get("add") or ()),
            no_new_privileges=both.get("allowPrivilegeEscalation") is False,
            read_only=bool(both.get("readOnlyRootFilesystem")),
            host_ipc=host_ipc,
            always_pull=one.get("imagePullPolicy") == "Always",
        )
        self._files[machine.folder / "secrets.json"] = json.dumps(secrets).encode()
        said = (*self._lines, ALWAYS)
        return ContainerPlan(container, tuple(self._folders), self._files, said)

    def _split_environment(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the variables that may be on a command line, and those that may not."""
        plain: dict[str, str] = {}
        secret: dict[str, str] = {}
        for variable in self._container.get("env") or ():
            name, source = variable["name"], variable.get("valueFrom") or {}
            text = str(variable.get("value") or "")
            value = self._find_value(name, source) if source else _expand(text, plain | secret)
            if value is None:
                continue
            hidden = "secretKeyRef" in source or is_secret_name(name)
            hidden = hidden or (not source and value != _expand(text, plain))
            (secret if hidden else plain)[name] = value
        for source in self._container.get("envFrom") or ():
            kind, reference = next((k, v) for k, v in source.items() if isinstance(v, Mapping))
            named = f"{kind.removesuffix('Ref')} {reference.get('name')}"
            self._lines.append(f"the variables of {named} are the cluster's, and not set here")
        return plain, secret

    def _find_value(self, name: str, source: Manifest) -> str | None:
        """Return a variable's value: ours, the pod's own, or that of this machine's variable."""
        if (found := self._find_field(source.get("fieldRef"))) is not None:
            return found
        reference = source.get("secretKeyRef") or source.get("configMapKeyRef") or {}
        ours = self._sources.secrets.get(reference.get("name", ""), {})
        if (key := str(reference.get("key"))) in ours:
            return ours[key]
        where = KINDS_OF_KEYS.get(next(iter(source)), next(iter(source)))
        where = f"{where} {reference.get('name', '')}".rstrip()
        if name in self._machine.environment:
            self._lines.append(f"{name} is this machine's variable, in place of {where}")
            return self._machine.environment[name]
        self._lines.append(f"{name} comes from {where}, and is not set here: export {name}=…")
        return None

    def _find_field(self, field_ref: Mapping[str, Any] | None) -> str | None:
        path = (field_ref or {}).get("fieldPath", "")
        known = {"spec.nodeName": self._machine.name, "metadata.name": self._machine.name}
        return known.get(path, self._metadata.get("namespace") if "namespace" in path else None)

    def _list_mounts(self) -> tuple[list[Mount], dict[str, int | None]]:
        volumes = {one["name"]: one for one in self._pod.get("volumes") or ()}
        mounts: list[Mount] = []
        memory: dict[str, int | None] = {}
        for mount in self._container.get("volumeMounts") or ():
            volume, path = volumes[mount["name"]], mount["mountPath"].rstrip("/")
            empty = volume.get("emptyDir")
            if empty is not None and empty.get("medium") == "Memory":
                most = self._machine.memory_bytes if path == SHARED_MEMORY else None
                memory[path] = _round(read_quantity(empty.get("sizeLimit")) or most)
                continue
            source = self._place(volume, path)
            if volume["name"] not in self._sources.data and (inner := mount.get("subPath")):
                source = source / inner
                if source not in self._files:
                    self._folders.append(source)
            mounts.append(Mount(source, path, bool(mount.get("readOnly"))))
        return mounts, memory

    def _place(self, volume: Manifest, path: str) -> Path:
        """Return where a volume is on this machine; its files and folders are noted."""
        name = str(volume["name"])
        if name in self._sources.data:
            return self._sources.data[name]
        folder = self._machine.folder / name
        if folder in self._folders:
            return folder
        self._folders.append(folder)
        for inner, content in self._list_files(volume):
            self._files[folder / inner] = content
        kind = next(key for key in volume if key != "name")
        found = any(one.parent == folder for one in self._files)
        optional = isinstance(volume[kind], Mapping) and volume[kind].get("optional")
        if kind not in ("emptyDir", "ephemeral", "downwardAPI") and not found and not optional:
            key, word = KINDS.get(kind, ("", kind))
            named = f"{word} {volume[kind].get(key, '')}".rstrip()
            self._lines.append(f"{path} is an empty folder: {named} is the cluster's")
        return folder

    def _list_files(self, volume: Manifest) -> Iterator[tuple[str, bytes]]:
        sources = (volume.get("projected") or {}).get("sources") or [volume]
        for source in sources:
            if config_map := source.get("configMap"):
                yield from _pick(self._sources.maps.get(config_map.get("name", ""), {}), config_map)
            if secret := source.get("secret"):
                name = secret.get("secretName") or secret.get("name", "")
                values = self._sources.secrets.get(name, {})
                yield from _pick({k: v.encode() for k, v in values.items()}, secret)
            for item in (source.get("downwardAPI") or {}).get("items") or ():
                yield item["path"], self._write_field(item)

    def _write_field(self, item: Manifest) -> bytes:
        """Return labels or annotations as the kubelet writes them, a line each."""
        path = (item.get("fieldRef") or {}).get("fieldPath", "")
        values = self._metadata.get(path.removeprefix("metadata."))
        if isinstance(values, Mapping):
            lines = (f'{key}="{value}"' for key, value in sorted(values.items()))
            return "\n".join(lines).encode()
        return (self._find_field(item.get("fieldRef")) or "").encode()

    def _limit(self, name: str, most: int) -> float | None:
        """Return a limit of the pod, as far as this machine goes."""
        listed = (self._container.get("resources") or {}).get("limits") or {}
        if name not in listed:
            return None
        wanted = parse_quantity(listed[name])
        if wanted > most:
            has = f"{most}" if name == "cpu" else f"{most >> 20}Mi"
            self._lines.append(f"{name}: {listed[name]} is more than this machine has, {has}")
        return min(wanted, float(most))

    def _count_gpus(self) -> int:
        limits = (self._container.get("resources") or {}).get("limits") or {}
        have, found = self._machine.gpus, 0
        for name, amount in limits.items():
            if "/" not in name:
                continue
            count = round(read_quantity(amount)) if name.startswith("nvidia.com/") else 0
            if not count or count > have:
                self._lines.append(f"{name}: {amount} is the cluster's; here: {have or 'no GPU'}")
            found = max(found, min(count, have))
        return -1 if found and found == have else found

    def _note_others(self) -> None:
        kinds = (("initContainers", "before it"), ("containers", "beside it"))
        for key, where in kinds:
            for one in self._pod.get(key) or ():
                if one is not self._container:
                    self._lines.append(f"the container {one['name']} {where} is not run")


def _is_map(document: Manifest) -> bool:
    return kind_of(document) == CONFIG_MAP


def _read_map(document: Manifest) -> dict[str, bytes]:
    binary = {k: base64.b64decode(v) for k, v in (document.get("binaryData") or {}).items()}
    return {**binary, **{k: v.encode() for k, v in (document.get("data") or {}).items()}}


def _pick(files: Mapping[str, bytes], source: Manifest) -> Iterator[tuple[str, bytes]]:
    """Yield all files of a ConfigMap or Secret, or its `items` under their paths."""
    items: Sequence[Manifest] = source.get("items") or [{"key": k, "path": k} for k in files]
    return ((one["path"], files[one["key"]]) for one in items if one["key"] in files)


def _expand(text: str, known: Mapping[str, str]) -> str:
    """Replace `$(NAME)` as Kubernetes does: unknown names stay, `$$` is a dollar sign."""

    def replace(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else known.get(found[1], found[0])

    return REFERENCE.sub(replace, text)


def _round(amount: float | None) -> int | None:
    return None if amount is None else round(amount)
