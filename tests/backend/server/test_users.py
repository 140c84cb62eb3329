"""Users and their keys, through the command line: added and shown once, listed, removed."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests  # noqa: TID251 - a test is a client of its own

from deployer.__main__ import run
from deployer.backend.data_folder import read_key
from deployer.backend.db.accounts import add_key, create_user, hash_key, key_id_of, revoke_key
from deployer.backend.server.daemon import stop_backend
from deployer.errors import WandbError
from deployer.wandb_api import accounts
from deployer.wandb_api.client import Client
from deployer.wandb_api.operations import create_agent_keys, create_sweep
from tests.backend.bench import Bench
from tests.backend.client import add_user
from tests.backend.pages_browser import log_in
from tests.conftest import ServedBackend, serve_backend

Type = Callable[..., Any]


@pytest.fixture
def type_(capsys: pytest.CaptureFixture[str]) -> Type:
    """Type `deployer backend user …` for a folder; return what it says as JSON."""

    def type_(data: Path, *words: str, code: int = 0) -> Any:
        assert run(["backend", "user", *words, "--data", str(data), "-o", "json"]) == code
        shown = capsys.readouterr()
        return json.loads(shown.err if code else shown.out)

    return type_


@pytest.fixture
def user(backend: ServedBackend, type_: Type) -> Type:
    """Type `deployer backend user …` beside the server of all tests."""
    return lambda *words, code=0: type_(backend.data, *words, code=code)


@pytest.fixture
def ann() -> str:
    return f"ann-{secrets.token_hex(4)}"


def identify(key: str) -> str:
    return key_id_of(hash_key(key))


def list_keys(listed: Any, name: str) -> list[tuple[str, str]]:
    """Return the ids and labels of a user's keys, as the list has them."""
    [keys] = [one["keys"] for one in listed["users"] if one["name"] == name]
    return [(key["id"], key["label"]) for key in keys]


def status(backend: ServedBackend, key: str) -> int:
    asked = {"query": "{ viewer { id } }"}
    return requests.post(
        f"{backend.url}/graphql", json=asked, auth=("api", key), timeout=30
    ).status_code


def test_a_key_is_shown_once_and_listed_by_what_it_is_for(
    backend: ServedBackend, user: Type, ann: str
) -> None:
    first = user("add", ann)
    second = user("add", ann, "--label", "laptop")
    assert (first["state"], second["state"]) == ("added", "key-added")
    listed = user("list")
    assert list_keys(listed, ann) == [(first["id"], ""), (second["id"], "laptop")]
    assert all(key["created"].endswith("Z") for one in listed["users"] for key in one["keys"])
    for made in (first, second):
        assert status(backend, made["key"]) == 200
        assert made["key"] not in str(listed)
        assert made["id"] == identify(made["key"])
        stored = b"".join(path.read_bytes() for path in backend.data.glob("backend.sqlite*"))
        assert made["key"].encode() not in stored
    assert status(backend, backend.key) == 200
    assert read_key(backend.data) == backend.key


def test_a_new_user_s_key_has_a_label_too(user: Type, ann: str) -> None:
    made = user("add", ann, "--label", "ci")
    assert list_keys(user("list"), ann) == [(made["id"], "ci")]


def test_a_removed_key_ends_at_once_and_what_was_signed_in_to_with_it(
    backend: ServedBackend, user: Type, ann: str
) -> None:
    kept = user("add", ann)
    lost = user("add", ann, "--label", "lost")
    browser = requests.Session()
    log_in(browser, backend.url, lost["key"])
    link = requests.post(f"{backend.url}/login/link", auth=("api", lost["key"]), timeout=30)
    events = browser.get(f"{backend.url}/api/events/", stream=True, timeout=30)
    blocks = events.iter_content(None)
    assert next(blocks)
    removed = user("remove", ann, lost["id"])
    assert removed == {"user": ann, "state": "key-removed", "id": lost["id"]}
    assert [status(backend, made["key"]) for made in (kept, lost)] == [200, 401]
    assert browser.get(f"{backend.url}/api/pages/", timeout=30).status_code == 401
    assert browser.get(f"{backend.url}/", timeout=30).url.startswith(f"{backend.url}/login")
    assert sum(map(len, blocks)) < 100  # the stream of changes ends, after the first of them
    other = requests.Session()
    code = link.json()["code"]
    other.post(f"{backend.url}/login", {"link": code}, timeout=30, allow_redirects=False)
    assert other.get(f"{backend.url}/api/pages/", timeout=30).status_code == 401


def test_users_are_listed_removed_and_brought_back(user: Type, ann: str) -> None:
    def names() -> list[str]:
        return [one["name"] for one in user("list")["users"]]

    user("add", ann)
    assert (names()[0], ann in names()) == ("tester", True)
    assert user("remove", ann) == {"user": ann, "state": "removed"}
    assert ann not in names()
    assert user("add", ann)["state"] == "added"
    assert ann in names()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("remove", "{ann}", "{id}"), "key {id} is the only key of {ann}; add another one first"),
        (("remove", "{ann}", "00000000"), "{ann} has no key '00000000'"),
        (("remove", "{ann}", ""), "{ann} has no key ''"),
        (("remove", "{ann}", "{own}"), "{ann} has no key '{own}'"),
        (("remove", "nobody", "{id}"), "user 'nobody' not found"),
        (("remove", "nobody"), "user 'nobody' not found"),
        (("remove", "tester"), "tester is the backend's own user and cannot be removed"),
        (
            ("remove", "tester", "{own}"),
            "key {own} is used by deployer itself and cannot be removed",
        ),
        (("add", "{ann}", "--label", "a\nb"), "a label must be one line of at most 100 characters"),
        (
            ("add", "{ann}", "--label", "x" * 101),
            "a label must be one line of at most 100 characters",
        ),
        (
            ("add", "new", "--label", "x" * 101),
            "a label must be one line of at most 100 characters",
        ),
        (("add", "a/b"), "user name 'a/b' must be letters, digits, '-' and '_', at most 63"),
    ],
)
def test_what_cannot_be_done(
    backend: ServedBackend, user: Type, ann: str, words: tuple[str, ...], said: str
) -> None:
    made = user("add", ann)
    names = {"ann": ann, "id": made["id"], "own": identify(backend.key)}
    refused = user(*(word.format(**names) for word in words), code=1)["error"]
    assert refused["message"] == f"{backend.url}: {said.format(**names)}"
    assert refused["hint"].startswith("deployer backend user ")
    assert [status(backend, key) for key in (made["key"], backend.key)] == [200, 200]


def test_deployer_s_own_user_has_other_keys_and_keeps_the_own(
    backend: ServedBackend, user: Type
) -> None:
    made = user("add", backend.entity, "--label", "laptop")
    assert status(backend, made["key"]) == 200
    user("remove", backend.entity, identify(backend.key), code=1)
    user("remove", backend.entity, made["id"])
    assert [status(backend, key) for key in (backend.key, made["key"])] == [200, 401]


def test_keys_that_cannot_be(backend: ServedBackend, ann: str) -> None:
    key = secrets.token_hex(20)
    with pytest.raises(WandbError, match="a key must have at least 40"):
        add_user(backend, ann, "short")
    add_user(backend, ann, key)
    for name in (backend.entity, f"other-{ann}"):
        with pytest.raises(WandbError, match="this key is already in use"):
            add_user(backend, name, key)


def test_what_is_asked_again_after_a_lost_answer_changes_nothing(
    backend: ServedBackend, ann: str
) -> None:
    owner = Client(backend.url, backend.key)
    keys = [secrets.token_hex(20) for _ in range(2)]
    for key, label in zip(keys, ("", "laptop"), strict=True):
        for _ in range(2):
            accounts.add_user(owner, ann, key, label)
    found = [(key.id, key.label) for key in accounts.list_users(owner)[ann]]
    assert found == [(identify(keys[0]), ""), (identify(keys[1]), "laptop")]


def test_nobody_else_manages_users(backend: ServedBackend, ann: str) -> None:
    keys = [secrets.token_hex(20) for _ in range(2)]
    for key in keys:
        add_user(backend, ann, key)
    owner = Client(backend.url, backend.key)
    config = "method: grid\nparameters: {x: {values: [1]}}\n"
    path, _ = create_sweep(owner, config, backend.entity, "p", ann)
    before = accounts.list_users(owner)
    for other in (keys[0], create_agent_keys(owner, path, ("a",), ann)["a"]):
        new = secrets.token_hex(20)
        tries: list[tuple[Callable[..., object], tuple[str, ...]]] = [
            (accounts.list_users, ()),
            *((accounts.add_user, (name, new)) for name in ("more", ann, backend.entity)),
            (accounts.remove_user, (ann,)),
            (accounts.revoke_key, (ann, identify(keys[1]))),
        ]
        for act, words in tries:
            with pytest.raises(WandbError, match="only the backend's own user"):
                act(Client(backend.url, other), *words)
    assert accounts.list_users(owner) == before


def test_a_backend_is_started_to_manage_its_users(tmp_path: Path, type_: Type, ann: str) -> None:
    data = tmp_path / "data"
    try:
        made = type_(data, "add", ann)
        assert stop_backend(data)
        assert list_keys(type_(data, "list"), ann) == [(made["id"], "")]
    finally:
        stop_backend(data)


@pytest.mark.slow
def test_a_brought_key_ends_the_others_if_it_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a cluster, whose backend gets the key of its Secret each time it starts."""
    file, more = tmp_path / "key", secrets.token_hex(20)
    monkeypatch.setenv("DEPLOYER_BACKEND_KEY_FILE", str(file))
    answers: list[list[int]] = []
    for key in ("a" * 40, "a" * 40, "b" * 40):
        file.write_text(key)
        served = serve_backend(tmp_path / "data")
        try:
            if not answers:
                add_user(served, served.entity, more)
            answers.append([status(served, one) for one in ("a" * 40, "b" * 40, more)])
        finally:
            served.end()
    assert answers == [[200, 401, 200], [200, 401, 200], [401, 200, 401]]


def test_the_same_id_twice_is_not_guessed(bench: Bench) -> None:
    """Ids are the beginnings of hashes: a second key with the same one is made by hand."""
    with bench.backend.store.transaction() as db:
        create_user(db, "twice", "m" * 40, 0.0)
        add_key(db, "twice", "n" * 40, 0.0)
        key_id = identify("n" * 40)
        db.execute("UPDATE keys SET hash = ? || 'x' WHERE hash = ?", (key_id, hash_key("m" * 40)))
        with pytest.raises(ValueError, match="twice has 2 keys"):
            revoke_key(db, "twice", key_id, kept="k" * 40)
