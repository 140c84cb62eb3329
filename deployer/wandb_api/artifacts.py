"""A run's logged artifacts and saved files: checksums and addresses."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import requests

from deployer.errors import WandbError
from deployer.model import SweepPath
from deployer.waiting import TIMEOUTS_SECONDS, waiting_for
from deployer.wandb_api import queries
from deployer.wandb_api.client import Client, open_session, read_refusal, translate
from deployer.wandb_api.model import parse_json

PER_PAGE = 100
CHUNK_BYTES = 1 << 20
PARTIAL_CONTENT, NOTHING_MORE = 206, 416
COMMITTED = "COMMITTED"
# Files that the SDK itself saves with each run.
OF_THE_SDK = frozenset(
    (
        *("conda-environment.yaml", "config.yaml", "diff.patch", "output.log", "requirements.txt"),
        *("wandb-events.jsonl", "wandb-history.jsonl", "wandb-metadata.json", "wandb-summary.json"),
    )
)
FOLDERS_OF_THE_SDK = ("artifact/", "code/", "logs/", "media/", "tmp/")


@dataclass(frozen=True)
class ArtifactFile:
    """One file of an artifact; `url` expires. `md5` and `sha256` are hex, empty if unknown.

    A server knows only MD5; the run itself has computed the SHA-256 of its outputs.
    """

    path: str
    size_bytes: int
    md5: str
    sha256: str
    url: str


@dataclass(frozen=True)
class RunArtifact:
    """A version of an artifact that a run logged; `kind` is its W&B type."""

    artifact_id: str
    name: str
    kind: str
    version: int
    files: tuple[ArtifactFile, ...]


def list_artifacts(client: Client, path: SweepPath, run_id: str) -> tuple[RunArtifact, ...]:
    """Return a run's artifacts, one complete version of each name: `best`, else the newest."""
    chosen: dict[str, dict[str, Any]] = {}
    variables = {"entity": path.entity, "project": path.project, "run": run_id}
    for node in _pages(client, queries.RUN_ARTIFACTS, variables, ("project", "run", "artifacts")):
        name = str((node.get("artifactSequence") or {}).get("name") or "")
        if node.get("state") == COMMITTED:
            chosen[name] = max(chosen.get(name, node), node, key=_rank_version)
    return tuple(_read_artifact(client, name, chosen[name]) for name in sorted(chosen))


def _rank_version(node: Mapping[str, Any]) -> tuple[bool, int]:
    best = any(one["alias"] == "best" for one in node.get("aliases") or ())
    return best, int(node.get("versionIndex") or 0)


def list_files(
    client: Client, artifact_id: str, sums: Mapping[str, str] | None = None
) -> tuple[ArtifactFile, ...]:
    """Return an artifact's files with fresh addresses; `sums` are known SHA-256 by path."""
    nodes = _pages(client, queries.ARTIFACT_FILES, {"id": artifact_id}, ("artifact", "files"))
    return tuple(_read_file(node, sums or {}) for node in nodes)


def list_saved_files(client: Client, path: SweepPath, run_id: str) -> tuple[ArtifactFile, ...]:
    """Return the files that a run's script saved, with fresh addresses."""
    variables = {"entity": path.entity, "project": path.project, "run": run_id}
    nodes = _pages(client, queries.RUN_FILES, variables, ("project", "run", "files"))
    files = (_read_file(node, {}) for node in nodes)
    return tuple(
        file
        for file in files
        if file.path not in OF_THE_SDK and not file.path.startswith(FOLDERS_OF_THE_SDK)
    )


def read_file(client: Client, url: str, offset: int = 0) -> Iterator[bytes]:
    """Yield the bytes of a file from `offset` on; raises WandbError.

    Sends the key only to the server itself, not to the store that it redirects to.
    """
    if not url:
        raise WandbError(
            f"{client.base_url}: the server has no download address for a file", status=501
        )
    own = urlsplit(url).netloc == urlsplit(client.base_url).netloc
    headers = {"Range": f"bytes={offset}-"} if offset else {}
    try:
        with open_session(url) as session:
            session.auth = client.session.auth if own else _no_key
            session.headers.update(client.gateway_headers if own else {})
            with waiting_for(client.words if own else f"{client.base_url}'s store of files"):
                reply = session.get(url, headers=headers, stream=True, timeout=TIMEOUTS_SECONDS)
            with reply:
                if offset and reply.status_code == NOTHING_MORE:
                    return
                if not reply.ok:
                    said = f"{client.base_url}: a file: {read_refusal(reply)}"
                    raise WandbError(said, status=reply.status_code)
                skipped = offset if reply.status_code != PARTIAL_CONTENT else 0
                for chunk in reply.iter_content(CHUNK_BYTES):
                    if new := chunk[skipped:]:
                        yield new
                    skipped = max(0, skipped - len(chunk))
    except requests.RequestException as error:
        raise translate(client.base_url, error) from error


def _no_key(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Leave a request unchanged: without this, the session would look for a key in netrc."""
    return request


def _read_artifact(client: Client, name: str, node: dict[str, Any]) -> RunArtifact:
    # Parse lines in the format of sha256sum.
    text = parse_json(node.get("metadata")).get("sha256")
    lines = text.splitlines() if isinstance(text, str) else ()
    pairs = (line.split("  ", 1) for line in lines)
    sums = {pair[1]: pair[0] for pair in pairs if len(pair) == 2}
    return RunArtifact(
        artifact_id=str(node["id"]),
        name=name,
        kind=str((node.get("artifactType") or {}).get("name") or ""),
        version=int(node.get("versionIndex") or 0),
        files=list_files(client, str(node["id"]), sums),
    )


def _read_file(node: dict[str, Any], sums: Mapping[str, str]) -> ArtifactFile:
    path = str(node.get("name") or "")
    return ArtifactFile(
        path=path,
        size_bytes=int(node.get("sizeBytes") or 0),
        md5=_read_md5(str(node.get("digest") or node.get("md5") or "")),
        sha256=sums.get(path, ""),
        url=str(node.get("directUrl") or node.get("url") or ""),
    )


def _read_md5(digest: str) -> str:
    """Return a digest as hex; empty if it is not an MD5, as for files stored elsewhere."""
    try:
        raw = base64.b64decode(digest, validate=True)
    except (binascii.Error, ValueError):
        return ""
    return raw.hex() if len(raw) == 16 else ""


def _pages(
    client: Client, query: str, variables: dict[str, Any], place: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    cursor: str | None = None
    while True:
        reply: Any = client.execute(query, {**variables, "first": PER_PAGE, "cursor": cursor})
        for key in place:
            reply = (reply or {}).get(key)
        connection = reply or {}
        yield from (edge["node"] for edge in connection.get("edges") or () if edge.get("node"))
        page = connection.get("pageInfo") or {}
        cursor = page.get("endCursor")
        if not page.get("hasNextPage") or not cursor:
            return
