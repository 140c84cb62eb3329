"""Ends connections of clients that send or take next to nothing, so that none is held for ever.

A reverse proxy may do so, too; this holds where there is none.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from deployer.backend.server.gate import MOST_HEADER_BYTES

NO_MORE = b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
TIMED_OUT = b"HTTP/1.1 408 Request Timeout" + NO_MORE
TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large" + NO_MORE


@dataclass(frozen=True)
class Pace:
    """How slow a client may be; a machine under load is slower than any network.

    All of a request's header comes within `header_seconds`; of its body at least `least_bytes`
    within `body_seconds`, again and again. Of its answer something is taken within
    `taking_seconds`.
    """

    header_seconds: float = 30.0
    body_seconds: float = 30.0
    least_bytes: int = 16 * 1024
    taking_seconds: float = 120.0

    @property
    def look_seconds(self) -> float:
        """Return how often a connection is looked at."""
        return min(self.header_seconds, self.body_seconds, self.taking_seconds) / 4


class PacedProtocol(H11Protocol):
    """uvicorn's connection, looked at now and then."""

    pace = Pace()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a header."""
        super().connection_made(transport)
        self._header_since: float | None = self.loop.time()
        self._header_bytes = 0
        self._body_since: float | None = None  # of the bytes that are counted
        self._body_bytes = 0
        self._stuck_since: float | None = None
        self._next_look = self.loop.call_later(self.pace.look_seconds, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        self._next_look.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Note when a header begins, also with line breaks; end one that is too long."""
        if self._body_since is None and self._header_since is None:
            self._header_since, self._header_bytes = self.loop.time(), 0
        if self._header_since is not None:
            self._header_bytes += len(data)
        self._body_bytes += len(data)
        super().data_received(data)
        too_long = self._header_since is not None and self._header_bytes > MOST_HEADER_BYTES
        if too_long and not self.transport.is_closing():
            self.transport.write(TOO_LONG)
            self.transport.close()

    def handle_events(self) -> None:
        """Note what the client sends next; uvicorn itself ends a connection that is idle."""
        super().handle_events()
        state = self.conn.their_state
        if state is h11.SEND_BODY and self._body_since is None:
            self._header_since, self._body_since, self._body_bytes = None, self.loop.time(), 0
        elif state is not h11.SEND_BODY:
            self._body_since = None
            if state is not h11.IDLE or not self.conn.trailing_data[0]:
                self._header_since = None

    def pause_writing(self) -> None:
        """Note since when the client takes nothing."""
        self._stuck_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that the client has taken something."""
        self._stuck_since = None
        super().resume_writing()

    def _look(self) -> None:
        now = self.loop.time()
        if self._stuck_since is not None and now - self._stuck_since > self.pace.taking_seconds:
            self.transport.abort()
        elif self._sends_too_slowly(now):
            self.transport.write(TIMED_OUT)
            self.transport.close()
        else:
            self._next_look = self.loop.call_later(self.pace.look_seconds, self._look)

    def _sends_too_slowly(self, now: float) -> bool:
        if self._header_since is not None:
            return now - self._header_since > self.pace.header_seconds
        if self._body_since is None or now - self._body_since < self.pace.body_seconds:
            return False
        # What is not read, because the server has enough to do, is not the client's fault.
        slow = self._body_bytes < self.pace.least_bytes and not self.flow.read_paused
        self._body_since, self._body_bytes = now, 0
        return slow


def build_protocol(pace: Pace) -> type[PacedProtocol]:
    """Return the class of connections that keep a pace."""

    class Paced(PacedProtocol):
        pass

    Paced.pace = pace
    return Paced
