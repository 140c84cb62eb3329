"""The results pages: logging in and out, who sees what, and what a browser is told."""

from __future__ import annotations

import re
import secrets
import sys
import threading
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests  # noqa: TID251 - a test is a client of its own

from deployer.backend.db.accounts import (
    SESSION_SECONDS,
    begin_session,
    caller_of_session,
    end_session,
    hash_key,
    replace_keys,
)
from deployer.backend.web.sign_in import LINK_SECONDS, MOST_LINKS, Links
from tests.backend.bench import KEY, Bench
from tests.backend.client import Client, add_user, grid
from tests.backend.pages_browser import log_in, page
from tests.conftest import FOREIGN_KEY, ServedBackend, serve_backend

AGENT_KEY = (
    "mutation K($path: String!) { deployerCreateAgentKey("
    'input: {sweepPath: $path, agentName: "a"}) { key } }'
)


def test_a_page_asks_for_the_key_and_comes_back(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1]))
    session = requests.Session()
    asked = session.get(page(client, f"/sweeps/{sweep}"), timeout=30)
    place = f"/{client.entity}/{client.project}/sweeps/{sweep}"
    assert asked.history[0].status_code == 303
    assert asked.url == f"{client.url}/login?next={place}"
    form = re.search(r'action="([^"]+)"', asked.text)
    assert form
    reply = session.post(client.url + form[1], {"key": client.key}, timeout=30)
    assert reply.url == client.url + place
    assert reply.status_code == 200


def test_the_cookie_is_out_of_reach_and_holds_no_key(backend: ServedBackend) -> None:
    reply = log_in(requests.Session(), backend.url, backend.key)
    cookie = reply.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert backend.key not in cookie + reply.headers["location"] + reply.text


@pytest.mark.parametrize("key", ["", "short", FOREIGN_KEY])
def test_a_wrong_key_is_refused_and_not_repeated(backend: ServedBackend, key: str) -> None:
    reply = log_in(requests.Session(), backend.url, key)
    assert reply.status_code == 401
    assert "This key is not valid here." in reply.text
    assert "set-cookie" not in reply.headers
    assert FOREIGN_KEY not in reply.text


def test_an_agents_key_cannot_log_in(client: Client) -> None:
    path = f"{client.entity}/{client.project}/{client.create_sweep(grid(x=[1]))}"
    key = client.ask(AGENT_KEY, path=path)["deployerCreateAgentKey"]["key"]
    reply = log_in(requests.Session(), client.url, key)
    assert reply.status_code == 403
    assert "set-cookie" not in reply.headers


def make_code(url: str, key: str) -> requests.Response:
    return requests.post(f"{url}/login/link", auth=("api", key), timeout=30)


def use_code(url: str, code: str) -> requests.Response:
    return requests.post(f"{url}/login", {"link": code}, allow_redirects=False, timeout=30)


def test_a_links_code_signs_in_once(backend: ServedBackend) -> None:
    code = make_code(backend.url, backend.key).json()["code"]
    first, second = use_code(backend.url, code), use_code(backend.url, code)
    assert (first.status_code, "set-cookie" in first.headers) == (303, True)
    assert (second.status_code, "set-cookie" in second.headers) == (401, False)
    assert "This link was already used or has expired." in second.text
    home = requests.get(f"{backend.url}/api/pages/", cookies=first.cookies, timeout=30)
    assert home.json()["entity"] == backend.entity


def test_a_links_code_is_made_for_people_alone(client: Client) -> None:
    path = f"{client.entity}/{client.project}/{client.create_sweep(grid(x=[1]))}"
    key = client.ask(AGENT_KEY, path=path)["deployerCreateAgentKey"]["key"]
    assert make_code(client.url, key).status_code == 403
    assert make_code(client.url, FOREIGN_KEY).status_code == 401


def test_a_link_that_is_opened_again_leads_on_who_is_signed_in(backend: ServedBackend) -> None:
    code = make_code(backend.url, backend.key).json()["code"]
    place = {"next": "/tester/p/sweeps/s"}
    browser = requests.Session()
    for _ in range(2):
        reply = browser.post(
            f"{backend.url}/login", {"link": code}, params=place, allow_redirects=False, timeout=30
        )
        assert (reply.status_code, reply.headers["location"]) == (303, place["next"])


def test_a_links_code_ends_after_some_minutes(bench: Bench) -> None:
    links = Links(bench.clock)
    early, late = links.make(KEY), links.make(KEY)
    bench.seconds += LINK_SECONDS - 1
    assert links.take(early) == hash_key(KEY)
    assert links.take(early) is None
    bench.seconds += 2
    assert links.take(late) is None


def test_a_links_code_is_good_once_while_others_are_made(
    request: pytest.FixtureRequest,
) -> None:
    request.addfinalizer(partial(sys.setswitchinterval, sys.getswitchinterval()))
    sys.setswitchinterval(1e-6)
    links = Links(lambda: 0.0)
    for _ in range(MOST_LINKS):  # so that making one takes a while
        links.make(KEY)
    for number in range(50):
        code = links.make(KEY)
        maker = threading.Thread(target=links.make, args=(KEY,))
        maker.start()
        for _ in range(20 * number):  # later each time, to meet the other at each of its steps
            pass
        assert links.take(code) == hash_key(KEY)
        maker.join()
        assert links.take(code) is None


def test_a_session_ends_after_a_month_with_its_key_and_when_it_is_ended(bench: Bench) -> None:
    with bench.backend.store.transaction() as db:
        first, second, third = (begin_session(db, hash_key(KEY), bench.seconds) for _ in range(3))
        assert caller_of_session(db, first, bench.seconds) == bench.me
        end_session(db, first)
        assert caller_of_session(db, first, bench.seconds) is None
        ends_at = bench.seconds + SESSION_SECONDS
        assert caller_of_session(db, second, ends_at - 1) == bench.me
        assert caller_of_session(db, second, ends_at) is None
        replace_keys(db, "me", "n" * 40, bench.seconds)
        assert caller_of_session(db, third, bench.seconds) is None


def test_a_restart_signs_nobody_out_and_the_file_holds_no_token(tmp_path: Path) -> None:
    before = serve_backend(tmp_path / "data")
    try:
        browser = requests.Session()
        log_in(browser, before.url, before.key)
    finally:
        before.end()
    [token] = browser.cookies.values()
    assert all(
        token.encode() not in one.read_bytes() for one in before.data.glob("backend.sqlite*")
    )
    after = serve_backend(before.data, port=urlsplit(before.url).port or 0)
    try:
        assert browser.get(f"{after.url}/api/pages/", timeout=30).status_code == 200
    finally:
        after.end()


def test_who_was_signed_in_reads_what_signs_in_again(
    backend: ServedBackend, browser: requests.Session
) -> None:
    address = f"{backend.url}/login"
    assert "has ended" not in requests.get(address, timeout=30).text
    kept = dict(browser.cookies)
    browser.post(f"{backend.url}/logout", timeout=30)
    said = requests.get(address, cookies=kept, timeout=30).text
    assert "Your sign-in has ended. deployer backend open prints a link" in said


@pytest.mark.parametrize("place", ["//evil.example/", "https://evil.example/", "/\\evil.example"])
def test_the_way_back_never_leaves_the_site(backend: ServedBackend, place: str) -> None:
    reply = log_in(requests.Session(), backend.url, backend.key, place)
    assert reply.headers["location"] == "/"


def test_what_comes_back_in_the_form_is_escaped(backend: ServedBackend) -> None:
    nasty = '/"><script>alert(1)</script>'
    reply = requests.get(f"{backend.url}/login", params={"next": nasty}, timeout=30)
    assert "<script>" not in reply.text


def test_signing_out_ends_the_session_on_the_server(
    backend: ServedBackend, browser: requests.Session
) -> None:
    kept = dict(browser.cookies)
    assert browser.get(f"{backend.url}/api/pages/", timeout=30).status_code == 200
    browser.post(f"{backend.url}/logout", timeout=30)
    assert not browser.cookies
    assert requests.get(f"{backend.url}/api/pages/", cookies=kept, timeout=30).status_code == 401


@pytest.mark.parametrize("place", ["", "/sweeps/abc", "/runs/abc", "/runs/abc/files/x"])
def test_data_without_a_session_is_401(client: Client, place: str) -> None:
    address = f"{client.url}/api/pages/{client.entity}/{client.project}{place}"
    reply = requests.get(address, auth=("api", client.key), timeout=30)
    assert reply.status_code == 401
    assert reply.json() == {"errors": [{"message": "log in first"}]}


def test_others_see_nothing(backend: ServedBackend, client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1]))
    name, key = f"other-{secrets.token_hex(4)}", secrets.token_hex(20)
    add_user(backend, name, key)
    other = requests.Session()
    log_in(other, backend.url, key)
    for place in ("", f"/sweeps/{sweep}"):
        assert other.get(page(client, place), timeout=30).status_code == 404
        address = f"{client.url}/api/pages/{client.entity}/{client.project}{place}"
        assert other.get(address, timeout=30).status_code == 404
    home = other.get(f"{backend.url}/api/pages/", timeout=30).json()
    assert home == {"kind": "home", "entity": name, "projects": [], "active": False}


def test_what_is_not_there_is_a_page_that_says_so(
    client: Client, browser: requests.Session
) -> None:
    client.create_sweep(grid(x=[1]))
    reply = browser.get(page(client, "/sweeps/<script>"), timeout=30)
    assert reply.status_code == 404
    assert f"{client.entity}/{client.project}/&lt;script&gt; not found" in reply.text


def test_pages_allow_no_foreign_and_no_inline_scripts(
    client: Client, browser: requests.Session
) -> None:
    client.create_sweep(grid(x=[1]))
    for address in (f"{client.url}/", page(client), f"{client.url}/login"):
        reply = browser.get(address, timeout=30)
        assert reply.headers["content-security-policy"].startswith("default-src 'self';")
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "same-origin"  # else our forms have no Origin
        assert not re.search(r"<script(?![^>]* src=)|<style| style=|\son\w+=", reply.text)
        links = re.findall(r'(?:src|href)="([^"]+\.(?:js|css|svg))"', reply.text)
        assert links
        for link in links:
            asset = requests.get(client.url + link, timeout=30)
            assert asset.status_code == 200
            assert "immutable" in asset.headers["cache-control"]


@pytest.mark.parametrize("place", ["sdk/otel", "sdk/otel/v1/logs", "files/x", "upload", "api/x"])
def test_pages_leave_the_protocols_addresses_alone(backend: ServedBackend, place: str) -> None:
    for method in ("GET", "POST"):
        reply = requests.request(method, f"{backend.url}/{place}", timeout=30)
        assert reply.status_code == 404, (method, reply.status_code)
