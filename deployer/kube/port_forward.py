"""Forwards a local port to a pod's port, even if the pod is replaced by one of its name.

Each connection has its own tunnel, so a replaced pod or a lost connection affects only the requests
in progress. The channels are those of `v4.channel.k8s.io`.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import threading
import time
from typing import Any

import websocket

from deployer.errors import KubeError
from deployer.kube.client import Kube
from deployer.kube.failures import CATCHABLE
from deployer.kube.objects import POD, find_condition

DATA = 0
PORT_BYTES = 2  # each channel begins with the pod's port
BLOCK_BYTES = 1 << 16
PATIENCE_SECONDS = 120.0  # for a pod that is being replaced
POLL_SECONDS = 0.5
BROKEN: tuple[type[Exception], ...] = (*CATCHABLE, websocket.WebSocketException)


class Forward:
    """Listens until it is closed, or the process ends; uses `local_port` if it is free.

    Connections wait until the pod is ready; with `patient=False` they do not wait.
    """

    def __init__(
        self, kube: Kube, pod: str, port: int, local_port: int = 0, *, patient: bool = True
    ) -> None:
        self._kube, self._pod, self._port, self._patient = kube, pod, port, patient
        self._closed = threading.Event()
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        # Closed connections of the previous command do not block the port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", local_port))
        except OSError:
            listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        self._listener = listener
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Forward:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._closed.set()
        with contextlib.suppress(OSError):  # wakes the accepting thread
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            tunnel = self._open_tunnel()
            if tunnel is None:
                return
            try:
                _carry(tunnel, client)
            except BROKEN:
                pass  # the client sees its connection end, and retries
            finally:
                tunnel.shutdown()

    def _open_tunnel(self) -> Any:
        """Return a tunnel to the pod once it is ready; None on timeout or without permission."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and not self._closed.is_set():
            try:
                if not self._patient or self._is_ready():
                    return self._kube.open_tunnel(self._pod, self._port)
            except KubeError as error:
                if error.status in (401, 403):
                    return None
            self._closed.wait(POLL_SECONDS)
        return None

    def _is_ready(self) -> bool:
        pod = self._kube.get(POD, self._pod)
        return pod is not None and find_condition(pod, "Ready") is not None


def _carry(tunnel: Any, client: socket.socket) -> None:
    """Copy bytes in both directions until one side ends; in one thread, as TLS requires."""
    heads: set[int] = set()
    with selectors.DefaultSelector() as selector:
        for one in (client, tunnel.sock):
            selector.register(one, selectors.EVENT_READ)
        while True:
            # TLS may buffer bytes that the kernel has already delivered.
            waiting = isinstance(tunnel.sock, ssl.SSLSocket) and tunnel.sock.pending() > 0
            ready = {key.fileobj for key, _ in selector.select(0 if waiting else None)}
            if client in ready:
                block = client.recv(BLOCK_BYTES)
                if not block:
                    return
                tunnel.send_binary(bytes([DATA]) + block)
            if (waiting or tunnel.sock in ready) and not _receive(tunnel, client, heads):
                return


def _receive(tunnel: Any, client: socket.socket, heads: set[int]) -> bool:
    """Forward one frame; return True if more may come. `heads` are the started channels."""
    code, frame = tunnel.recv_data_frame(control_frame=True)
    if code != websocket.ABNF.OPCODE_BINARY:
        return bool(code != websocket.ABNF.OPCODE_CLOSE)
    channel, content = frame.data[0], frame.data[1:]
    if channel not in heads:
        heads.add(channel)
        content = content[PORT_BYTES:]
    if channel == DATA:
        client.sendall(content)
        return True
    return not content  # the error channel: nothing listens on the pod's port
