"""Copies to and from an emulator of Google Cloud Storage."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from deployer.data.addresses import open_address
from deployer.data.copy import copy
from deployer.data.folder_store import FolderStore
from deployer.data.gcs_store import PIECE_BYTES
from deployer.errors import DataError
from tests.data.object_servers import BUCKET, serve_gcs
from tests.data.stores import make_tree, read_tree
from tests.data.test_copy import Lying

pytestmark = pytest.mark.slow
TREE = {"a": 10, "train/big.bin": 2 * PIECE_BYTES + 5, "train/empty": 0, "é x+&.txt": 5}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serve_gcs() as url:
        yield url


@pytest.fixture(autouse=True)
def no_machine_of_google(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_GCE_CHECK", "true")


def test_a_tree_goes_there_and_comes_back(server: str, tmp_path: Path) -> None:
    content = make_tree(tmp_path / "from", TREE)
    with open_address(f"gs://{BUCKET}/{tmp_path.name}/data", server) as store:
        assert store.list_entries() == []
        copied = copy(FolderStore(tmp_path / "from"), store)
        assert (copied.files, copied.equal_files) == (len(TREE), 0)
        assert not store.is_unfinished()
        assert copy(FolderStore(tmp_path / "from"), store).equal_files == len(TREE)
        copy(store, FolderStore(tmp_path / "to"))
        assert read_tree(FolderStore(tmp_path / "to")) == content
        assert b"".join(store.read("a", 4)) == content["a"][4:]
        store.delete("a")
        store.delete("a")
        assert store.checksum("a") is None
        with store.copying():
            assert store.is_unfinished()
        store.delete_all()
        assert store.list_entries() == []


def test_wrong_bytes_never_appear(server: str, tmp_path: Path) -> None:
    make_tree(tmp_path / "from", {"a": 10, "big": 2 * PIECE_BYTES})
    with open_address(f"gs://{BUCKET}/{tmp_path.name}", server) as store:
        with pytest.raises(DataError, match="has changed since"):
            copy(Lying(tmp_path / "from"), store)
        assert store.list_entries() == []
        assert store.is_unfinished()


def test_refusals_are_one_line_and_say_what_to_do(server: str) -> None:
    with pytest.raises(DataError) as raised:
        open_address("gs://no-such-bucket/x", server).list_entries()
    assert raised.value.message == f"gs://no-such-bucket/x at {server}: not found"
    assert raised.value.hint == "correct `url:` in deployer.yaml"


class TokenServer(ThreadingHTTPServer):
    """Gives a token for whatever it is asked with, and keeps that."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), TokenHandler)
        self.asked: list[str] = []


class TokenHandler(BaseHTTPRequestHandler):
    server: TokenServer

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        self.server.asked.append(self.rfile.read(size).decode())
        body = b'{"access_token": "token", "expires_in": 3600, "token_type": "Bearer"}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def tokens() -> Iterator[TokenServer]:
    with TokenServer() as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


def test_the_service_account_of_a_secret_is_the_one_that_asks(
    server: str, tokens: TokenServer, tmp_path: Path
) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    account = {
        "type": "service_account",
        "client_email": "data@example",
        "private_key": pem.decode(),
        "token_uri": f"http://127.0.0.1:{tokens.server_address[1]}",
    }
    make_tree(tmp_path / "from", {"a": 10})
    secret = {"other": "x", "key.json": json.dumps(account)}
    with open_address(f"gs://{BUCKET}/{tmp_path.name}", server, secret) as store:
        assert copy(FolderStore(tmp_path / "from"), store).files == 1
    assert "grant_type=" in tokens.asked[0]


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ({"AWS_ACCESS_KEY_ID": "x"}, "the Secret has no service account key"),
        ({"key.json": '{"type": "service_account"}'}, "Google does not accept the key"),
        ({"key.json": "{}"}, "Google does not accept the key"),
    ],
)
def test_a_secret_without_a_key_is_refused(secret: dict[str, str], said: str) -> None:
    with pytest.raises(DataError, match=said) as raised:
        open_address("gs://bucket", None, secret)
    assert "--from-file=key.json=FILE" in raised.value.hint
