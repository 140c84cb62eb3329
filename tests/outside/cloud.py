"""A stand-in for W&B's cloud: the backend without its extensions, under the cloud's own names.

No name is looked up and nothing leaves this machine: programs reach the names through a proxy,
which knows no others. That needs no root, as a hosts file would. The certificates are those of an
authority of the test's own, as in a company that opens TLS.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import trustme
from aiohttp import ClientSession, TCPConnector, web

from deployer.backend.data_folder import read_url
from tests.conftest import ServedBackend, serve_backend

CLOUD_HOSTS = ("api.forge.coreweave.com", "forge.coreweave.com", "api.wandb.ai", "wandb.ai")
FORGE_API_PATH = "/api/wandb"
IDENTITY_TOKEN, ACCESS_TOKEN = "header.identity.signature", "access-token"
USER, PASSWORD = "proxy user", "proxy:password"
OF_CONNECTION = ("connection", "keep-alive", "transfer-encoding", "content-length", "host")
LARGEST_BODY_BYTES = 1 << 28


@dataclass
class Network:
    """A server behind names of its own, and the proxies that lead there; both want a login.

    A gateway answers 403 to requests without `wanted_headers`. Each of `refusals`, a status and
    headers, is an answer that comes once in the server's place. `asked` has each request's host and
    path, `led` the kind of proxy and the name of each connection.
    """

    backend: ServedBackend
    ca: Path
    http_proxy: str = ""
    socks_proxy: str = ""
    wanted_headers: dict[str, str] = field(default_factory=dict)
    refusals: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    led: list[str] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """What programs need to reach the names: a proxy, and the authority."""
        return {"HTTPS_PROXY": self.http_proxy, "SSL_CERT_FILE": str(self.ca)}


@contextmanager
def serve_network(folder: Path, hosts: tuple[str, ...] = CLOUD_HOSTS) -> Iterator[Network]:
    """Serve a backend without extensions under these names, the first of which it calls its own."""
    os.environ["DEPLOYER_BACKEND_PUBLIC_URL"] = f"https://{hosts[0]}"
    try:
        backend = serve_backend(folder / "data", "plain")
    finally:
        del os.environ["DEPLOYER_BACKEND_PUBLIC_URL"]
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*hosts).configure_cert(context)
    network = Network(backend, folder / "ca.pem")
    gateway = _Gateway(network, hosts[0], context)
    try:
        with run_loop() as run:
            run(gateway.start())
            proxies = Proxies(hosts, ("127.0.0.1", gateway.port))
            run(proxies.start())
            network.http_proxy, network.socks_proxy = proxies.http_proxy, proxies.socks_proxy
            network.led = proxies.led
            yield network
            run(proxies.stop())
            run(gateway.stop())
    finally:
        backend.end()


@contextmanager
def run_loop() -> Iterator[Callable[[Coroutine[Any, Any, None]], None]]:
    """Give what runs a coroutine in a loop of its own thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(30)
    finally:
        asyncio.run_coroutine_threadsafe(_end_tasks(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Proxies:
    """An HTTP and a SOCKS proxy, which lead `hosts` to one `destination` and no other host."""

    def __init__(self, hosts: Collection[str], destination: tuple[str, int]) -> None:
        self.hosts, self.destination = hosts, destination
        self.led: list[str] = []
        self.http_proxy = self.socks_proxy = ""
        self._servers: list[asyncio.Server] = []

    async def start(self) -> None:
        login = f"{quote(USER)}:{quote(PASSWORD, safe='')}@127.0.0.1"
        self.http_proxy = f"http://{login}:{await self._listen(self._lead_by_http)}"
        self.socks_proxy = f"socks5h://{login}:{await self._listen(self._lead_by_socks)}"

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        await _end_tasks()

    async def _listen(self, lead: Callable[..., Awaitable[None]]) -> int:
        server = await asyncio.start_server(lead, "127.0.0.1", 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _lead_by_http(self, *client: Any) -> None:
        """Open a way by CONNECT (RFC 9110, 9.3.6)."""
        with suppress(OSError, EOFError):
            head = (await client[0].readuntil(b"\r\n\r\n")).decode()
            token = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            host = urlsplit(f"//{head.split()[1]}").hostname or ""
            if f"proxy-authorization: basic {token}".lower() not in head.lower():
                client[1].write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            elif host not in self.hosts or not head.startswith("CONNECT "):
                client[1].write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
            else:
                client[1].write(b"HTTP/1.1 200 OK\r\n\r\n")
                await self._join("http", host, client)
        client[1].close()

    async def _lead_by_socks(self, *client: Any) -> None:
        """Open a way by SOCKS5 with a login (RFC 1928, RFC 1929)."""
        with suppress(OSError, EOFError):
            read, write = client[0].readexactly, client[1].write
            methods = await read((await read(2))[1])
            write(b"\5\2" if 2 in methods else b"\5\xff")
            await read(1)
            user = await read((await read(1))[0])
            password = await read((await read(1))[0])
            is_known = (user.decode(), password.decode()) == (USER, PASSWORD)
            write(b"\1\0" if is_known else b"\1\1")
            kind = (await read(4))[3]
            host = (await read((await read(1))[0])).decode() if kind == 3 else ""
            await read(2)
            if is_known and host in self.hosts:
                write(b"\5\0\0\1" + bytes(6))
                await self._join("socks", host, client)
            else:
                write(b"\5\2\0\1" + bytes(6))
        client[1].close()

    async def _join(self, kind: str, host: str, client: Any) -> None:
        """Carry bytes both ways until both ends are closed."""
        self.led.append(f"{kind} {host}")
        gateway = await asyncio.open_connection(*self.destination)
        await asyncio.gather(_carry(client[0], gateway[1]), _carry(gateway[0], client[1]))


class _Gateway:
    """Opens TLS before a backend, as W&B's gateway does."""

    def __init__(self, network: Network, host: str, context: ssl.SSLContext) -> None:
        self.network, self.host, self.context = network, host, context
        self.inner = read_url(network.backend.data)
        self.port = 0

    async def start(self) -> None:
        app = web.Application(client_max_size=LARGEST_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self.answer)
        self.runner = web.AppRunner(app, auto_decompress=False, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=self.context).start()
        self.port = self.runner.addresses[0][1]
        self.session = ClientSession(
            connector=TCPConnector(force_close=True), auto_decompress=False
        )

    async def stop(self) -> None:
        await self.session.close()
        await self.runner.cleanup()
        await _end_tasks()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Pass a request on to the backend, as W&B's gateway does."""
        body, path = await request.read(), request.raw_path
        self.network.asked.append(f"{request.host}{path}")
        if self.network.refusals:
            status, headers = self.network.refusals.pop(0)
            return web.json_response({"error": "slower, please"}, status=status, headers=headers)
        wanted = self.network.wanted_headers.items()
        if any(request.headers.get(name) != value for name, value in wanted):
            return web.Response(status=403, text="not through this gateway")
        if path.startswith(FORGE_API_PATH):
            path = path[len(FORGE_API_PATH) :]
        if path == "/oidc/token":
            return self.exchange(body.decode())
        headers = {n: v for n, v in request.headers.items() if n.lower() not in OF_CONNECTION}
        headers["Host"] = self.host
        if headers.get("Authorization") == f"Bearer {ACCESS_TOKEN}":
            login = base64.b64encode(f"api:{self.network.backend.key}".encode()).decode()
            headers["Authorization"] = f"Basic {login}"
        reply = await self.session.request(
            request.method, f"{self.inner}{path}", headers=headers, data=body, allow_redirects=False
        )
        async with reply:
            kept = {n: v for n, v in reply.headers.items() if n.lower() not in OF_CONNECTION}
            return web.Response(status=reply.status, headers=kept, body=await reply.read())

    def exchange(self, form: str) -> web.Response:
        """Answer as W&B's servers do to an identity token (RFC 7523)."""
        sent = dict(parse_qsl(form))
        self.network.asked.append(sent.get("grant_type", ""))
        if sent.get("assertion") != IDENTITY_TOKEN:
            return web.json_response({"error": "the assertion is not valid"}, status=401)
        lasting = {"access_token": ACCESS_TOKEN, "token_type": "Bearer", "expires_in": 3600}
        return web.json_response(lasting)


async def _end_tasks() -> None:
    late = asyncio.all_tasks() - {asyncio.current_task()}
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
    with suppress(OSError):
        writer.close()
