"""One kept HTTP connection: what a request costs its client is little beside the server."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit


class Connection:
    """Sends one request after another; a connection that the server closed is opened again."""

    def __init__(self, url: str, key: str) -> None:
        self._host, self._port = urlsplit(url).hostname, urlsplit(url).port
        token = base64.b64encode(f"api:{key}".encode()).decode()
        self._head = (
            f"Host: {self._host}:{self._port}\r\nAuthorization: Basic {token}\r\n"
            "Content-Type: application/json\r\n"
        )
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
        """Return status and body of the answer; raise OSError where there is none."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\n{self._head}Content-Length: {len(content)}\r\n\r\n"
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        try:
            writer.write(head.encode() + content)
            lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
            headers = dict(line.lower().split(b": ", 1) for line in lines[1:] if line)
            return int(lines[0].split()[1]), await reader.readexactly(
                int(headers.get(b"content-length", b"0"))
            )
        except (OSError, EOFError) as error:
            self.close()
            raise ConnectionError("the server closed the connection") from error

    def close(self) -> None:
        """Close the connection."""
        if self._streams:
            self._streams[1].close()
        self._streams = None
