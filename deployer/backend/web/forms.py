"""What a page sends: a form or a few words of JSON, never more than a little."""

from __future__ import annotations

from starlette.requests import Request as HttpRequest

from deployer.backend.refusal import Refusal

MOST_BYTES = 64 * 1024


async def read_form(http: HttpRequest) -> bytes:
    """Return the body; refuse with 413 one that no page of ours sends, before all of it is here."""
    received = bytearray()
    async for block in http.stream():
        received += block
        if len(received) > MOST_BYTES:
            raise Refusal(413, f"the body is bigger than {MOST_BYTES} bytes")
    return bytes(received)
