"""An artifact's manifest: which files it has, as W&B's client writes them down (JSON, version 1).

Pure. An entry is either bytes that the server keeps, found by their MD5, or a reference to
something elsewhere that the server never sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deployer.backend.db.files import check_name
from deployer.backend.parsing import parse_object
from deployer.backend.refusal import Refusal

Document = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """One file of an artifact; `digest` is base64 MD5 unless there is a `reference`."""

    name: str
    digest: str
    size_bytes: int | None
    reference: str | None


def parse_manifest(content: bytes) -> Document:
    """Parse a manifest; refuse with 400 what is not one."""
    try:
        document = parse_object(content.decode(), "the manifest")
        contents = document["contents"]
    except (ValueError, KeyError, Refusal) as error:
        raise Refusal(400, f"the artifact's manifest cannot be read: {error!r}") from error
    if not isinstance(contents, dict) or not all(map(_is_entry, contents.values())):
        raise Refusal(400, "the artifact's manifest has no list of files")
    return dict(document)


def _is_entry(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("digest"), str)
        and isinstance(value.get("ref"), str | None)
        and isinstance(size := value.get("size"), int | None)
        and -(2**63) <= (size or 0) < 2**63
    )


def list_entries(document: Document) -> list[Entry]:
    """Return a manifest's files; refuse with 400 a name that leads out of a folder."""
    return [
        Entry(check_name(name), part["digest"], part.get("size"), part.get("ref"))
        for name, part in document["contents"].items()
    ]


def merge_manifests(base: Document, changes: Document) -> Document:
    """Return `base` with the files of `changes` added or replaced."""
    return {**base, **changes, "contents": {**base["contents"], **changes["contents"]}}
