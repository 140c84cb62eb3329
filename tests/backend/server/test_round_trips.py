"""What a request costs on the wire: one round trip, and no connection for each."""

from __future__ import annotations

import socket
import struct
from urllib.parse import urlsplit

from tests.conftest import ServedBackend

REQUESTS = 40
# Offsets in Linux' struct tcp_info.
SEGMENTS_OUT, DATA_SEGMENTS_OUT = 136, 156


def test_an_answer_does_not_wait_for_an_acknowledgement(backend: ServedBackend) -> None:
    """A whole answer is acknowledged once; one that waits for that in its middle, twice."""
    place = urlsplit(backend.url)
    with socket.create_connection((place.hostname or "", place.port or 0)) as connection:
        size = _ask(connection)
        before = _bare_acknowledgements(connection)
        for _ in range(REQUESTS):
            _ask(connection, size)
        trips = (_bare_acknowledgements(connection) - before) / REQUESTS
    assert trips < 1.5


def _ask(connection: socket.socket, size: int = 0) -> int:
    """Ask once and return the size of the answer, which is always the same."""
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    # In one read: an acknowledgement that follows each read would be counted, too.
    answer = connection.recv(size, socket.MSG_WAITALL) if size else b""
    while not size and not answer.endswith(b"\r\n\r\nok"):
        answer += connection.recv(1 << 16)
    assert answer.endswith(b"\r\n\r\nok"), answer
    return len(answer)


def _bare_acknowledgements(connection: socket.socket) -> int:
    told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, DATA_SEGMENTS_OUT + 4)
    (sent,) = struct.unpack_from("I", told, SEGMENTS_OUT)
    (with_data,) = struct.unpack_from("I", told, DATA_SEGMENTS_OUT)
    return int(sent - with_data)
