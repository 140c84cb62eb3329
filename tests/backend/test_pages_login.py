"""The results pages: logging in and out, who sees what, and what a browser is told."""

from __future__ import annotations

import re
import secrets

import pytest
import requests  # noqa: TID251 - a test is a client of its own

from deployer.backend.server.users import add_user
from tests.backend.client import Client, grid
from tests.backend.pages_browser import log_in, page
from tests.conftest import FOREIGN_KEY, ServedBackend

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
    add_user(backend.data, name, key)
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
