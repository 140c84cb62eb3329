"""Users of a backend and their keys: an old one is good until the user wants one alone."""

from __future__ import annotations

import secrets

import pytest

from deployer.backend.data_folder import read_key
from deployer.backend.server.users import add_user, add_user_key
from deployer.errors import BackendError, WandbError
from deployer.wandb_api import accounts
from deployer.wandb_api.client import Client
from deployer.wandb_api.operations import create_agent_keys, create_sweep, get_viewer
from tests.conftest import ServedBackend, serve_backend


def owner_of(backend: ServedBackend, key: str) -> str:
    """Return whose key it is, as the server says."""
    return get_viewer(Client(backend.url, key)).entity


def test_another_key_and_then_it_alone(backend: ServedBackend) -> None:
    name = f"ann-{secrets.token_hex(4)}"
    old, new = secrets.token_hex(20), secrets.token_hex(20)
    add_user(backend.data, name, old)
    for _ in range(2):
        add_user_key(backend.data, name, new, only=False)
    assert [owner_of(backend, key) for key in (old, new)] == [name] * 2
    add_user_key(backend.data, name, new, only=True)
    assert owner_of(backend, new) == name
    with pytest.raises(WandbError, match="not valid"):
        owner_of(backend, old)
    assert owner_of(backend, backend.key) == backend.entity
    assert read_key(backend.data) == backend.key


def test_the_command_line_s_own_key_is_replaced(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    served = serve_backend(tmp_path_factory.mktemp("own") / "data")
    key = secrets.token_hex(20)
    add_user_key(served.data, served.entity, key, only=True)
    assert read_key(served.data) == key
    assert owner_of(served, key) == served.entity
    served.end()


def test_keys_that_cannot_be(backend: ServedBackend) -> None:
    key = secrets.token_hex(20)
    with pytest.raises(BackendError, match="there is no user 'nobody'"):
        add_user_key(backend.data, "nobody", key, only=False)
    with pytest.raises(BackendError, match="a key needs 40 or more"):
        add_user_key(backend.data, backend.entity, "short", only=False)
    name = f"bob-{secrets.token_hex(4)}"
    add_user(backend.data, name, key)
    with pytest.raises(BackendError, match="this key is in use already"):
        add_user_key(backend.data, backend.entity, key, only=False)


def test_the_backend_s_own_user_adds_others_from_afar(backend: ServedBackend) -> None:
    owner, name = Client(backend.url, backend.key), f"eve-{secrets.token_hex(4)}"
    old, new = secrets.token_hex(20), secrets.token_hex(20)
    for _ in range(2):  # the answer may have been lost
        accounts.add_user(owner, name, old)
    for _ in range(2):
        accounts.add_user_key(owner, name, new, only=True)
    assert owner_of(backend, new) == name
    with pytest.raises(WandbError, match="not valid"):
        owner_of(backend, old)
    with pytest.raises(WandbError, match="exists already"):
        accounts.add_user(owner, name, old)
    with pytest.raises(WandbError, match="whose key is where it is served"):
        accounts.add_user_key(owner, backend.entity, old, only=False)


def test_nobody_else_adds_users(backend: ServedBackend) -> None:
    name, key = f"mal-{secrets.token_hex(4)}", secrets.token_hex(20)
    add_user(backend.data, name, key)
    config = "method: grid\nparameters: {x: {values: [1]}}\n"
    path, _ = create_sweep(Client(backend.url, backend.key), config, backend.entity, "p", name)
    agent_key = create_agent_keys(Client(backend.url, backend.key), path, ("a",), name)["a"]
    for other in (key, agent_key):
        with pytest.raises(WandbError, match="only the backend's own user"):
            accounts.add_user(Client(backend.url, other), "more", secrets.token_hex(20))
