"""Changes of a page, told as server-sent events: only that there is something new, never what.

A listener takes no thread while it waits. It ends with its log-in, and when the server is to stop.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable

from deployer.backend.refusal import Refusal
from deployer.backend.scheduling.context import Backend

LOOK_SECONDS = 1.0
PULSE_SECONDS = 15.0  # a comment now and then: a proxy keeps the connection, a lost one is noticed
NAP_SECONDS = 0.25  # so soon a listener notices that the server is to stop


async def list_changes(
    backend: Backend, look: Callable[[], Awaitable[object]]
) -> AsyncIterator[bytes]:
    """Yield an event for each change of what `look` returns; end when it refuses."""
    seen, quiet = "", 0.0
    yield b"retry: 2000\n\n"
    while not backend.ending.is_set():
        try:
            now = hashlib.sha256(repr(await look()).encode()).hexdigest()[:16]
        except Refusal:
            return
        quiet += LOOK_SECONDS
        if now != seen:
            yield f"data: {now}\n\n".encode()
            seen, quiet = now, 0.0
        elif quiet >= PULSE_SECONDS:
            yield b": still here\n\n"
            quiet = 0.0
        await _rest(backend)


async def _rest(backend: Backend) -> None:
    waited = 0.0
    while waited < LOOK_SECONDS and not backend.ending.is_set():
        await asyncio.sleep(NAP_SECONDS)
        waited += NAP_SECONDS
