"""Bytes over HTTP: uploads and downloads by signed addresses, downloads with a key.

What a user stored is sent to be saved, never shown: its scripts would act as this site.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request as HttpRequest
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from deployer.backend.db.artifacts.collections import find_collection
from deployer.backend.db.artifacts.files import (
    artifact_file_by_id,
    find_by_digest,
    set_artifact_content,
)
from deployer.backend.db.artifacts.versions import artifact_by_id, change_artifact
from deployer.backend.db.database import Connection
from deployer.backend.db.files import file_by_id, find_file, guess_mimetype, set_content
from deployer.backend.db.projects import get_project
from deployer.backend.db.runs.runs import get_run, run_by_id
from deployer.backend.db.users.accounts import Caller
from deployer.backend.refusal import Refusal, not_found
from deployer.backend.scheduling.context import Backend
from deployer.backend.storage.blob_folder import Received, keep
from deployer.backend.storage.signed_urls import (
    ARTIFACT_FILES,
    MANIFESTS,
    RUN_FILES,
    Action,
    Target,
)

FindCaller = Callable[[HttpRequest], Caller]

HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-store",
}
# What an address can stand for; `artifacts` is the manifest of one.


def build_transfer_routes(backend: Backend, find_caller: FindCaller) -> list[Route]:
    """Return the routes of all bytes but the file stream's."""
    transfers = Transfers(backend, find_caller)
    signed = "/{table}/{row:number}/{expires:number}/{signature}"
    owner = "/{entity}/{project}/{collection}"
    return [
        Route(f"/upload{signed}", transfers.upload, methods=["PUT"]),
        Route(f"/download{signed}", transfers.download),
        Route(f"/download{signed}/{{name:path}}", transfers.download),
        Route("/files/{entity}/{project}/{run}/{name:path}", transfers.download_run_file),
        Route(f"/artifactsV2/{{region}}{owner}/{{birth}}/{{digest}}/{{name}}", transfers.by_digest),
        Route(f"/artifactsV2/{{region}}{owner}/{{digest}}/{{name}}", transfers.by_digest),
    ]


class Number(IntegerConvertor):
    """A number that the database can hold."""

    regex = "[0-9]{1,18}"


register_url_convertor("number", Number())


class Transfers:
    """The endpoints; an address that is signed needs no key."""

    def __init__(self, backend: Backend, find_caller: FindCaller) -> None:
        self.backend = backend
        self.find_caller = find_caller

    async def upload(self, http: HttpRequest) -> Response:
        """Receive a file; it counts once all of it has come."""
        target = self._signed(http, "upload")
        announced = http.headers.get("content-length", "0")
        size = int(announced) if announced.isdigit() else 0
        received = await self.backend.blobs.receive(http.stream(), size)
        try:
            await run_in_threadpool(self._store, target, received)
        finally:
            received.path.unlink(missing_ok=True)
        return Response(status_code=200)

    def _store(self, target: Target, received: Received) -> None:
        with self.backend.store.transaction() as db:
            {
                RUN_FILES: self._store_run_file,
                ARTIFACT_FILES: self._store_artifact_file,
                MANIFESTS: self._store_manifest,
            }[target.table](db, target.row_id, received)

    def _store_run_file(self, db: Connection, row_id: int, received: Received) -> None:
        file = file_by_id(db, row_id)
        owner = run_by_id(db, file.run_id).user_id
        now = self.backend.now()
        set_content(db, file, keep(db, self.backend.blobs, owner, received, now), now)

    def _store_artifact_file(self, db: Connection, row_id: int, received: Received) -> None:
        file = artifact_file_by_id(db, row_id)
        row = artifact_by_id(db, file.artifact_id)
        _check_digest(file.name, file.digest, received)
        now = self.backend.now()
        change_artifact(db, row, now)
        blob = keep(db, self.backend.blobs, row.user_id, received, now)
        set_artifact_content(db, file, blob)

    def _store_manifest(self, db: Connection, row_id: int, received: Received) -> None:
        row = artifact_by_id(db, row_id)
        if row.committed:  # by another run that logged the same: this one has nothing to add
            return
        now = self.backend.now()
        blob = keep(db, self.backend.blobs, row.user_id, received, now)
        change_artifact(db, row, now, manifest_blob_id=blob.id)

    def download(self, http: HttpRequest) -> Response:
        """Send what a signed address stands for."""
        target = self._signed(http, "download")
        with self.backend.store.snapshot() as db:
            if target.table == RUN_FILES:
                blob_id = file_by_id(db, target.row_id).blob_id
            elif target.table == ARTIFACT_FILES:
                blob_id = artifact_file_by_id(db, target.row_id).blob_id
            else:
                blob_id = artifact_by_id(db, target.row_id).manifest_blob_id
        return self._send(blob_id, target.name)

    def download_run_file(self, http: HttpRequest) -> Response:
        """Send a file of a run to whoever has a key for it."""
        place = http.path_params
        caller = self.find_caller(http)
        with self.backend.store.snapshot() as db:
            project = get_project(db, caller, place["entity"], place["project"])
            run = get_run(db, project, place["run"])
            file = find_file(db, run.id, place["name"])
        if file is None:
            raise not_found(f"file {place['name']}")
        return self._send(file.blob_id, file.name)

    def by_digest(self, http: HttpRequest) -> Response:
        """Send a file of a collection by its MD5, as the SDK fetches a single one."""
        place = http.path_params
        caller = self.find_caller(http)
        with self.backend.store.snapshot() as db:
            project = get_project(db, caller, place["entity"], place["project"])
            collection = find_collection(db, project, place["collection"])
            md5 = _base64_digest(place["digest"])
            file = find_by_digest(db, collection.id, md5) if collection else None
        if file is None:
            raise not_found(f"file {place['name']}")
        return self._send(file.blob_id, file.name)

    def _send(self, blob_id: int | None, name: str) -> Response:
        if blob_id is None:
            raise not_found(f"file {name}")
        return FileResponse(
            self.backend.blobs.path(blob_id),
            media_type=guess_mimetype(name),
            filename=PurePosixPath(name).name or "file",
            headers=HEADERS,
        )

    def _signed(self, http: HttpRequest, action: Action) -> Target:
        place: dict[str, Any] = http.path_params
        target = Target(place["table"], place["row"], place.get("name", ""))
        signer, now = self.backend.signer, self.backend.now()
        signer.check(action, target, place["expires"], place["signature"], now)
        return target


def _check_digest(name: str, promised: str | None, received: Received) -> None:
    if promised and promised != received.md5:
        raise Refusal(400, f"file {name} was received damaged: its MD5 is {received.md5}")


def _base64_digest(text: str) -> str:
    try:
        return base64.b64encode(bytes.fromhex(text)).decode()
    except ValueError as error:
        raise not_found(f"file of digest {text}") from error
