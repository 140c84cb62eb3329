"""Bytes over HTTP: uploads and downloads by signed addresses, downloads with a key.

Users' files are sent as downloads, never inline: their scripts would run as this site.
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

from deployer.backend.db.accounts import Caller, get_project
from deployer.backend.db.artifacts import Artifact, Collection
from deployer.backend.db.files import File, find_by_digest, guess_mimetype, set_content
from deployer.backend.db.rows import find, get, update
from deployer.backend.db.runs import RunRow, get_run
from deployer.backend.request import Refusal, not_found
from deployer.backend.scheduling.context import Backend
from deployer.backend.storage.blob_folder import Action, Received, keep

FindCaller = Callable[[HttpRequest], Caller]

HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-store",
}


def build_transfer_routes(backend: Backend, find_caller: FindCaller) -> list[Route]:
    """Return the routes of all uploads and downloads, without the file stream."""
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
    """The endpoints; a signed address needs no key."""

    def __init__(self, backend: Backend, find_caller: FindCaller) -> None:
        self.backend = backend
        self.find_caller = find_caller

    async def upload(self, http: HttpRequest) -> Response:
        """Receive a file; store it only if it is complete."""
        file_id = self._signed(http, "upload")
        announced = http.headers.get("content-length", "0")
        size = int(announced) if announced.isdigit() else 0
        received = await self.backend.blobs.receive(http.stream(), size)
        try:
            await run_in_threadpool(self._store, file_id, received)
        finally:
            received.path.unlink(missing_ok=True)
        return Response(status_code=200)

    def _store(self, file_id: int, received: Received) -> None:
        now = self.backend.now()
        with self.backend.store.transaction() as db:
            file = get(db, File, file_id)
            if file.run_id is not None:
                owner = get(db, RunRow, file.run_id).user_id
            else:
                row = get(db, Artifact, file.artifact_id)
                if file.manifest and row.committed:  # another run logged the same content
                    return
                if not file.manifest and file.digest and file.digest != received.md5:
                    said = f"file {file.name} was received damaged: its MD5 is {received.md5}"
                    raise Refusal(400, said)
                update(db, row, updated_at=now)
                owner = row.user_id
            set_content(db, file, keep(db, self.backend.blobs, owner, received, now), now)

    def download(self, http: HttpRequest) -> Response:
        file_id = self._signed(http, "download")
        with self.backend.store.snapshot() as db:
            blob_id = get(db, File, file_id).blob_id
        return self._send(blob_id, http.path_params.get("name", ""))

    def download_run_file(self, http: HttpRequest) -> Response:
        place = http.path_params
        caller = self.find_caller(http)
        with self.backend.store.snapshot() as db:
            project = get_project(db, caller, place["entity"], place["project"])
            run = get_run(db, project, place["run"])
            file = find(db, File, run_id=run.id, name=place["name"])
        if file is None:
            raise not_found(f"file {place['name']}")
        return self._send(file.blob_id, file.name)

    def by_digest(self, http: HttpRequest) -> Response:
        """Send a file of a collection by its MD5; the SDK gets single files like this."""
        place = http.path_params
        caller = self.find_caller(http)
        with self.backend.store.snapshot() as db:
            project = get_project(db, caller, place["entity"], place["project"])
            collection = find(db, Collection, project_id=project.id, name=place["collection"])
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

    def _signed(self, http: HttpRequest, action: Action) -> int:
        part: dict[str, Any] = http.path_params
        place, now = f"{part['table']}/{part['row']}", self.backend.now()
        self.backend.signer.check(action, place, part["expires"], part["signature"], now)
        return int(part["row"])


def _base64_digest(text: str) -> str:
    try:
        return base64.b64encode(bytes.fromhex(text)).decode()
    except ValueError as error:
        raise not_found(f"file of digest {text}") from error
