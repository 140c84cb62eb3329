"""What a request brings: a JSON object, of no more than W&B's clients ever send."""

from __future__ import annotations

import json
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request as HttpRequest

from deployer.backend.refusal import Refusal

# The SDK sends a run's stream in pieces of some megabytes; bigger bytes go as files.
MOST_BYTES = 64 * 1024 * 1024
STRANGERS_BYTES = 64 * 1024
MOST_PACKED = 64  # a stranger's bomb: gzip packs a thousand to one
GZIP = 16 + zlib.MAX_WBITS


async def read_json(http: HttpRequest, admit: Callable[[], Awaitable[object]]) -> dict[str, Any]:
    """Return the body; refuse with 413 what is too big, packed or not, and with 400 no object.

    `admit` refuses strangers, of whom no more than a little is read.
    """
    raw = await _receive(http, admit)
    if http.headers.get("content-encoding") == "gzip":
        raw = _unpack(raw)
    try:
        body = json.loads(raw or b"{}")
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise Refusal(400, "the body is not a JSON object")
    return body


async def _receive(http: HttpRequest, admit: Callable[[], Awaitable[object]]) -> bytes:
    announced = http.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > MOST_BYTES:
        raise _too_big()
    packed = http.headers.get("content-encoding") == "gzip"
    strangers_bytes = STRANGERS_BYTES // MOST_PACKED if packed else STRANGERS_BYTES
    received, admitted = bytearray(), False
    async for block in http.stream():
        received += block
        if len(received) > strangers_bytes and not admitted:
            await admit()
            admitted = True
        if len(received) > MOST_BYTES:
            raise _too_big()
    return bytes(received)


def _unpack(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj(GZIP)
    try:
        plain = unpacking.decompress(packed, MOST_BYTES)
    except zlib.error as error:
        raise Refusal(400, f"the body is not gzip: {error}") from error
    if unpacking.unconsumed_tail:
        raise _too_big()
    if not unpacking.eof:
        raise Refusal(400, "the body is not gzip: its end is missing")
    return plain


def _too_big() -> Refusal:
    return Refusal(413, f"the body is bigger than {MOST_BYTES} bytes")
