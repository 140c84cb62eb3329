"""Bodies of requests: JSON objects, no bigger than W&B's clients send them."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request as HttpRequest

from deployer.backend.parsing import parse_object
from deployer.backend.refusal import Refusal

# The SDK sends a run's stream in pieces of some megabytes, and anything bigger as a file.
MOST_BYTES = 64 * 1024 * 1024
STRANGERS_BYTES = 64 * 1024
GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True)
class Body:
    """The bytes of a request, compressed or not."""

    content: bytes
    packed: bool

    def parse(self) -> dict[str, Any]:
        """Return the JSON object; refuse one that is too big with 413, anything else with 400."""
        content = _unpack(self.content) if self.packed else self.content
        try:
            return parse_object(content.decode() or "{}", "the body")
        except UnicodeDecodeError as error:
            raise Refusal(400, f"the body is not JSON: {error}") from error


async def receive(http: HttpRequest, admit: Callable[[], Awaitable[object]]) -> Body:
    """Return the body; refuse one that is too big with 413.

    `admit` refuses strangers before more than a few bytes of theirs are kept.
    """
    announced = http.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > MOST_BYTES:
        raise _too_big()
    received, admitted = bytearray(), False
    async for block in http.stream():
        received += block
        if len(received) > STRANGERS_BYTES and not admitted:
            await admit()
            admitted = True
        if len(received) > MOST_BYTES:
            raise _too_big()
    return Body(bytes(received), http.headers.get("content-encoding") == "gzip")


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
