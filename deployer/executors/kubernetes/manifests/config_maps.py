"""The ConfigMaps of a sweep, with the supervisor and the project's code; pure.

A larger archive of the code lies in several ConfigMaps, one part in each, which a pod joins.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterable

from deployer.config.owner import Owner
from deployer.executors.kubernetes.manifests.fields import Manifest, build_metadata, encode
from deployer.executors.kubernetes.manifests.overlay import REMOVED, overlay
from deployer.images.code_archive import split_archive
from deployer.kube.names import (
    ARCHIVE_ANNOTATION,
    COMPONENT_LABEL,
    build_hash,
    build_owned_name,
)


def build_config_map(
    template: Manifest,
    content: bytes,
    sweep_path: str,
    owner: Owner,
    namespace: str | None,
) -> Manifest:
    """Fill the only file of a ConfigMap, whose name ends with a hash of it."""
    metadata = _build_metadata(template, sweep_path, owner, namespace, build_hash(content))
    [file] = template["binaryData"]
    filled = {"metadata": metadata, "binaryData": {file: encode(content)}}
    return dict(overlay(template, filled))


def build_code_maps(
    template: Manifest, code: bytes, sweep_path: str, owner: Owner, namespace: str | None
) -> list[Manifest]:
    """Return the ConfigMap of an archive, or those of its parts where one cannot hold it.

    The parts' files are `code.tar.gz.00`, `.01` and so on; the names of their ConfigMaps begin
    alike, and an annotation has the hash of the whole.
    """
    parts = split_archive(code)
    if len(parts) == 1:
        return [build_config_map(template, code, sweep_path, owner, namespace)]
    whole = build_hash(code)
    [file] = template["binaryData"]
    maps = []
    for number, part in enumerate(parts):
        metadata = _build_metadata(template, sweep_path, owner, namespace, whole, str(number))
        metadata["annotations"][ARCHIVE_ANNOTATION] = whole
        files = {file: REMOVED, f"{file}.{number:02}": encode(part)}
        maps.append(overlay(template, {"metadata": metadata, "binaryData": files}))
    return maps


def read_code_maps(maps: Iterable[Manifest]) -> bytes | None:
    """Return the first archive in ConfigMaps, which are given in order of their creation.

    One of which a part is missing counts as none: agents begin when all of it is there.
    """
    parts: dict[str, dict[str, bytes]] = defaultdict(dict)
    for one in maps:
        held = {name: base64.b64decode(text) for name, text in one["binaryData"].items()}
        whole = (one["metadata"].get("annotations") or {}).get(ARCHIVE_ANNOTATION)
        parts[whole or build_hash(*held.values())] |= held
    joined = (
        (whole, b"".join(held[name] for name in sorted(held))) for whole, held in parts.items()
    )
    return next((code for whole, code in joined if build_hash(code) == whole), None)


def _build_metadata(
    template: Manifest, sweep_path: str, owner: Owner, namespace: str | None, *end: str
) -> Manifest:
    """Name and label a ConfigMap; its template's component says what it is."""
    component = template["metadata"]["labels"][COMPONENT_LABEL]
    name = build_owned_name(sweep_path, owner, component, *end)
    return build_metadata(name, component, sweep_path, namespace)
