"""Another user's key and log-in, tried on every address of the server, at what is not theirs.

A route of the application without a row fails the tests.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import requests  # noqa: TID251 - a test is a client of its own
from starlette.routing import Route

from deployer.backend.server.app import build_app
from deployer.backend.server.users import add_user
from tests.backend.bench import Bench
from tests.backend.client import Client
from tests.backend.estate import Estate, make_estate, read_all
from tests.backend.pages_browser import log_in
from tests.conftest import ServedBackend, serve_backend

PLACE = "/{entity}/{project}"
PAGES = {
    f"{before}{place}": f"{before}{asked}"
    for before in ("", "/api/pages", "/api/events")
    for place, asked in {
        "/{entity:page}/{project}": PLACE,
        "/{entity:page}/{project}/compare": f"{PLACE}/compare?runs={{run}},{{run_at_work}}",
        "/{entity:page}/{project}/sweeps/{sweep}": f"{PLACE}/sweeps/{{sweep}}",
        "/{entity:page}/{project}/runs/{run}": f"{PLACE}/runs/{{run}}",
        "/{entity:page}/{project}/artifacts/{type}/{collection}": f"{PLACE}/artifacts/dataset/data",
        "/{entity:page}/{project}/artifacts/{type}/{collection}/{version}": f"{PLACE}"
        "/artifacts/dataset/data/v0",
    }.items()
}
PAGE = "/api/pages/{entity:page}/{project}"
# What is asked of each route that is somebody's: by a key, and by a cookie.
REFUSED = {
    "GET /deployer/copy": "/deployer/copy",
    "POST /files/{entity}/{project}/{run}/file_stream": f"/files{PLACE}/{{run}}/file_stream",
    "GET /files/{entity}/{project}/{run}/{name:path}": f"/files{PLACE}/{{run}}/{{file}}",
    "GET /artifactsV2/{region}/{entity}/{project}/{collection}/{birth}/{digest}/{name}": (
        f"/artifactsV2/default{PLACE}/data/birth/{{md5}}/{{artifact_file}}"
    ),
    "GET /artifactsV2/{region}/{entity}/{project}/{collection}/{digest}/{name}": (
        f"/artifactsV2/default{PLACE}/data/{{md5}}/{{artifact_file}}"
    ),
    f"GET {PAGE}/runs/{{run}}/files/{{name:path}}": (
        f"/api/pages{PLACE}/runs/{{run}}/files/{{file}}"
    ),
    f"GET {PAGE}/artifacts/{{type}}/{{collection}}/{{version}}/files/{{name:path}}": (
        f"/api/pages{PLACE}/artifacts/dataset/data/v0/files/{{artifact_file}}"
    ),
    f"POST {PAGE}/sweeps/{{sweep}}/state": f"/api/pages{PLACE}/sweeps/{{sweep}}/state",
    f"GET {PAGE}/sweeps/{{sweep}}/importance": f"/api/pages{PLACE}/sweeps/{{sweep}}/importance",
    f"GET {PAGE}/curves": f"/api/pages{PLACE}/curves?metric=loss&runs={{run}}",
    **{f"GET {place}": asked for place, asked in PAGES.items()},
}
# Signed addresses: `file_url` and the like, of the asker's own, made to stand for another's row.
SIGNED = {
    "PUT /upload/{table}/{row:int}/{expires:int}/{signature}": "/upload",
    "GET /download/{table}/{row:int}/{expires:int}/{signature}": "/download",
    "GET /download/{table}/{row:int}/{expires:int}/{signature}/{name:path}": "/download",
}
# Nobody's, or the asker's own; they say nothing of anybody else. GraphQL is in test_other_users.py.
OPEN = {
    "GET /healthz": "/healthz",
    "GET /readyz": "/readyz",
    "GET /metrics": "/metrics",
    "GET /ready": "/ready",
    "GET /login": "/login",
    "POST /login": "/login",
    "POST /login/link": "/login/link",
    "POST /logout": "/logout",
    "GET /static/{version}/{name:path}": "/static/1/page.js",
    "GET /": "/",
    "GET /api/pages/": "/api/pages/",
    "GET /api/events/": "/api/events/",
    "POST /graphql": "/graphql",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBackend]:
    made = serve_backend(tmp_path_factory.mktemp("addresses") / "data")
    yield made
    made.process.terminate()
    made.process.wait(20)


@pytest.fixture(scope="module")
def first(served: ServedBackend) -> Estate:
    return make_estate(Client.of(served, "p"))


@pytest.fixture(scope="module")
def second(served: ServedBackend) -> Estate:
    name, key = f"eve-{secrets.token_hex(4)}", secrets.token_hex(20)
    add_user(served.data, name, key)
    return make_estate(Client(served.url, key, name, "mine"), run="mine", collection="mine")


def ask(who: Estate, method: str, address: str, session: bool) -> requests.Response:
    """Ask by the key or by a log-in; of a stream of events, only whether it begins."""
    asker = requests.Session()
    if session:
        log_in(asker, who.client.url, who.client.key)
    else:
        asker.auth = ("api", who.client.key)
    body = {"action": "stop", "query": "{ viewer { id } }", "complete": True, "exitcode": 1}
    origin = {"Origin": who.client.url}
    return asker.request(
        method,
        who.client.url + address,
        json=None if method == "GET" else body,
        headers=origin,
        allow_redirects=False,
        stream=True,
        timeout=30,
    )


def test_every_route_has_a_row(bench: Bench) -> None:
    routes = [route for route in build_app(bench.backend).routes if isinstance(route, Route)]
    known = {f"{m} {r.path}" for r in routes for m in r.methods or () if m != "HEAD"}
    assert known == {*REFUSED, *SIGNED, *OPEN}


@pytest.mark.parametrize("route", REFUSED)
@pytest.mark.parametrize("session", [False, True], ids=["key", "cookie"])
def test_what_is_another_user_s_is_not_there(
    served: ServedBackend, first: Estate, second: Estate, route: str, session: bool
) -> None:
    before, address = read_all(served), REFUSED[route].format(**first.names)
    reply = ask(second, route.split()[0], address, session)
    to_log_in = reply.status_code == 303 and reply.headers["location"].startswith("/login")
    assert reply.status_code in (401, 403, 404) or (to_log_in and not session), reply.text
    assert first.word not in reply.text
    assert read_all(served) == before


@pytest.mark.parametrize("route", sorted(set(REFUSED) - {"GET /deployer/copy"}))
def test_the_same_is_there_for_its_owner(first: Estate, route: str) -> None:
    """Each row is a right address, so that a refusal says something."""
    method, address = route.split()[0], REFUSED[route].format(**first.names)
    if method == "POST":
        return
    by_key = route.startswith(("GET /files", "GET /artifactsV2"))
    reply = ask(first, method, address, session=not by_key)
    assert reply.status_code == 200, (address, reply.text)
    reply.close()


@pytest.mark.parametrize("name", ["file_url", "artifact_file_url", "manifest_url"])
def test_a_signed_address_stands_for_one_row_and_one_action(
    served: ServedBackend, first: Estate, second: Estate, name: str
) -> None:
    before = read_all(served)
    for own in ("file_url", "artifact_file_url", "manifest_url"):
        mine, theirs = (urlsplit(e.names[n]).path for e, n in ((second, own), (first, name)))
        _, action, _, _, *signed = mine.split("/")
        _, _, table, row, *_ = theirs.split("/")
        forged = f"/{action}/{table}/{row}/{'/'.join(signed)}"
        for reply in (
            requests.get(served.url + forged, timeout=30),
            requests.get(served.url + forged.rpartition("/")[0], timeout=30),
            requests.put(served.url + re.sub("^/download", "/upload", forged), b"x", timeout=30),
            requests.put(served.url + re.sub("^/download", "/upload", mine), b"x", timeout=30),
        ):
            assert reply.status_code in (403, 404, 405), reply.text
            assert first.word not in reply.text
    assert read_all(served) == before


@pytest.mark.parametrize("route", sorted(set(OPEN) - {"GET /api/events/"}))
def test_open_addresses_name_nobody_else(first: Estate, second: Estate, route: str) -> None:
    for session in (False, True):
        text = ask(second, route.split()[0], OPEN[route], session).text
        assert first.word not in text
        assert first.names["run"] not in text
