"""Keys one by one, through the command line: made and shown once, listed, replaced, revoked."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any

import pytest
import requests  # noqa: TID251 - a test is a client of its own

from deployer.__main__ import run
from deployer.backend.data_folder import read_key
from deployer.backend.db.users.accounts import create_user, hash_key
from deployer.backend.db.users.keys import add_key, revoke_key
from deployer.backend.server.users import add_user, identify
from deployer.errors import WandbError
from deployer.wandb_api import accounts
from deployer.wandb_api.client import Client
from tests.backend.bench import Bench
from tests.backend.pages_browser import log_in
from tests.conftest import ServedBackend, serve_backend

Type = Callable[..., Any]


@pytest.fixture
def user(backend: ServedBackend, capsys: pytest.CaptureFixture[str]) -> Type:
    """Type `deployer backend user …` beside a server; return what it says as JSON."""

    def type_(*words: str, code: int = 0) -> Any:
        line = ["backend", "user", *words, "--data", str(backend.data), "-o", "json"]
        assert run(line) == code
        shown = capsys.readouterr()
        return json.loads(shown.err if code else shown.out)

    return type_


@pytest.fixture
def ann() -> str:
    return f"ann-{secrets.token_hex(4)}"


def status(backend: ServedBackend, key: str) -> int:
    asked = {"query": "{ viewer { id } }"}
    return requests.post(
        f"{backend.url}/graphql", json=asked, auth=("api", key), timeout=30
    ).status_code


def test_a_key_is_shown_once_and_listed_by_what_it_is_for(
    backend: ServedBackend, user: Type, ann: str
) -> None:
    first = user("add", ann)
    second = user("key", ann, "--label", "laptop")
    listed = user("keys", ann)["keys"]
    assert [(key["id"], key["label"]) for key in listed] == [
        (first["id"], ""),
        (second["id"], "laptop"),
    ]
    assert listed[0]["created"].endswith("Z")
    for made in (first, second):
        assert status(backend, made["key"]) == 200
        assert made["key"] not in str(listed)
        assert made["id"] == identify(made["key"])
        stored = b"".join(path.read_bytes() for path in backend.data.glob("backend.sqlite*"))
        assert made["key"].encode() not in stored


def test_a_revoked_key_ends_at_once_and_what_was_signed_in_to_with_it(
    backend: ServedBackend, user: Type, ann: str
) -> None:
    user("add", ann)
    lost = user("key", ann, "--label", "lost")
    browser = requests.Session()
    log_in(browser, backend.url, lost["key"])
    link = requests.post(f"{backend.url}/login/link", auth=("api", lost["key"]), timeout=30)
    events = browser.get(f"{backend.url}/api/events/", stream=True, timeout=30)
    blocks = events.iter_content(None)
    assert next(blocks)
    user("revoke", ann, lost["id"])
    assert status(backend, lost["key"]) == 401
    assert browser.get(f"{backend.url}/api/pages/", timeout=30).status_code == 401
    assert browser.get(f"{backend.url}/", timeout=30).url.startswith(f"{backend.url}/login")
    assert sum(map(len, blocks)) < 100  # the stream of changes ends, after the first of them
    other = requests.Session()
    code = link.json()["code"]
    other.post(f"{backend.url}/login", {"link": code}, timeout=30, allow_redirects=False)
    assert other.get(f"{backend.url}/api/pages/", timeout=30).status_code == 401


def test_a_key_is_replaced_under_its_label(backend: ServedBackend, user: Type, ann: str) -> None:
    user("add", ann)
    old = user("key", ann, "--label", "ci")
    new = user("rotate", ann, old["id"])
    assert [status(backend, made["key"]) for made in (old, new)] == [401, 200]
    assert (new["id"], "ci") in [(key["id"], key["label"]) for key in user("keys", ann)["keys"]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("revoke", "{ann}", "{id}"), "key {id} is the only one of {ann}"),
        (("revoke", "{ann}", "00000000"), "{ann} has no key '00000000'"),
        (("revoke", "{ann}", "{others}"), "{ann} has no key '{others}'"),
        (("rotate", "{ann}", "{others}"), "{ann} has no key '{others}'"),
        (("rotate", "nobody", "{id}"), "there is no user 'nobody'"),
        (("keys", "nobody"), "there is no user 'nobody'"),
        (("key", "{ann}", "--label", "a\nb"), "a label is a line of at most 100 characters"),
        (("key", "{ann}", "--label", "x" * 101), "a label is a line of at most 100 characters"),
    ],
)
def test_what_cannot_be_done_to_a_key(
    backend: ServedBackend, user: Type, ann: str, words: tuple[str, ...], said: str
) -> None:
    names = {"ann": ann, "id": user("add", ann)["id"], "others": identify(backend.key)}
    refused = user(*(word.format(**names) for word in words), code=1)
    assert refused["error"]["message"] == said.format(**names)


def test_deployer_s_own_key_is_replaced_and_never_revoked(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    served = serve_backend(tmp_path_factory.mktemp("own") / "data")
    data = ("--data", str(served.data))
    assert run(["backend", "user", "key", served.entity, *data]) == 0
    own = identify(served.key)
    assert run(["backend", "user", "revoke", served.entity, own, *data]) == 1
    assert f"key {own} is the one that deployer itself works with" in capsys.readouterr().err
    assert run(["backend", "user", "rotate", served.entity, own, *data]) == 0
    new = capsys.readouterr().out.strip()
    assert read_key(served.data) == new
    assert [status(served, key) for key in (served.key, new)] == [401, 200]
    served.end()


def test_the_backend_s_own_user_manages_keys_from_afar(backend: ServedBackend, ann: str) -> None:
    owner = Client(backend.url, backend.key)
    keys = [secrets.token_hex(20) for _ in range(3)]
    add_user(backend.data, ann, keys[0])
    for _ in range(2):  # the answer may have been lost
        accounts.add_user_key(owner, ann, keys[1], only=False, label="laptop")
    for _ in range(2):
        accounts.rotate_user_key(owner, ann, identify(keys[1]), keys[2])
    assert [(key.id, key.label) for key in accounts.list_user_keys(owner, ann)] == [
        (identify(keys[0]), ""),
        (identify(keys[2]), "laptop"),
    ]
    accounts.revoke_user_key(owner, ann, identify(keys[0]))
    assert [status(backend, key) for key in keys] == [401, 401, 200]
    with pytest.raises(WandbError, match="whose key is where it is served"):
        accounts.rotate_user_key(owner, backend.entity, identify(backend.key), keys[1])
    with pytest.raises(WandbError, match="deployer itself works with"):
        accounts.revoke_user_key(owner, backend.entity, identify(backend.key))
    hers = Client(backend.url, keys[2])
    for act in (
        lambda: accounts.list_user_keys(hers, ann),
        lambda: accounts.rotate_user_key(hers, ann, identify(keys[2]), keys[0]),
        lambda: accounts.revoke_user_key(hers, ann, identify(keys[2])),
    ):
        with pytest.raises(WandbError, match="only the backend's own user"):
            act()


def test_the_same_id_twice_is_not_guessed(bench: Bench) -> None:
    """Ids are the beginnings of hashes: a second key with the same one is made by hand."""
    with bench.backend.store.transaction() as db:
        user = create_user(db, "twice", "m" * 40, 0.0)
        added = add_key(db, user.name, "n" * 40, 0.0, only=False)
        db.execute(
            "UPDATE keys SET hash = ? || 'x' WHERE hash = ?", (added.key_id, hash_key("m" * 40))
        )
        with pytest.raises(ValueError, match="twice has 2 keys"):
            revoke_key(db, user.name, added.key_id)
