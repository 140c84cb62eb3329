"""Each address of the server, asked for another user's things: with a key, a session, or neither.

An address that has no row here fails. Each row is a true one: the owner gets an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import requests  # noqa: TID251 - an attacker is a client of its own
from starlette.routing import Route

from deployer.backend.db.accounts import hash_key
from deployer.backend.db.store import DATABASE, read_only
from deployer.backend.scheduling.context import Backend
from deployer.backend.server.app import build_app
from tests.backend.client import Client
from tests.backend.pages_browser import log_in
from tests.backend.two_users import Rows, World, make_world, read_rows
from tests.conftest import ServedBackend, serve_backend

PAGE = "/{entity:page}/{project}"
SIGNED = "{table}/{row:number}/{expires:number}/{signature}"
ARTIFACT = "/artifacts/{type}/{collection}"
PLACE = "/<entity>/<project>"
VERSION = f"{PLACE}/artifacts/dataset/<collection>"


@dataclass(frozen=True)
class Row:
    """What is asked of an address. What is `public` is the same for all; `own` differs by asker."""

    address: str
    public: bool = False
    own: bool = False
    signed: bool = False
    keyed: bool = False
    sent: Mapping[str, Any] = field(default_factory=dict)


VIEWS = {
    "/": Row("/", own=True),
    PAGE: Row(PLACE),
    f"{PAGE}/compare": Row(f"{PLACE}/compare?runs=<run>"),
    f"{PAGE}/sweeps/{{sweep}}": Row(f"{PLACE}/sweeps/<sweep>"),
    f"{PAGE}/runs/{{run}}": Row(f"{PLACE}/runs/<run>"),
    PAGE + ARTIFACT: Row(VERSION),
    f"{PAGE}{ARTIFACT}/{{version}}": Row(f"{VERSION}/v0"),
}
LOGGED = {"files": {"wandb-history.jsonl": {"offset": 1, "content": ['{"loss": 0}']}}}
ROWS = {
    ("GET", "/healthz"): Row("/healthz", public=True),
    ("GET", "/readyz"): Row("/readyz", public=True),
    ("GET", "/metrics"): Row("/metrics", public=True),
    ("GET", "/ready"): Row("/ready", public=True),
    ("POST", "/graphql"): Row(
        "/graphql",
        keyed=True,
        own=True,
        sent={"json": {"query": "{ projects { edges { node { runs { edges { node { name }}}}}}}"}},
    ),
    ("GET", "/deployer/copy"): Row("/deployer/copy", keyed=True),
    ("POST", "/files/{entity}/{project}/{run}/file_stream"): Row(
        f"/files{PLACE}/<run>/file_stream", keyed=True, sent={"json": LOGGED}
    ),
    ("PUT", f"/upload/{SIGNED}"): Row("<upload>", signed=True, sent={"data": b"mine"}),
    ("GET", f"/download/{SIGNED}"): Row("<bare_download>", signed=True),
    ("GET", f"/download/{SIGNED}/{{name:path}}"): Row("<download>", signed=True),
    ("GET", "/files/{entity}/{project}/{run}/{name:path}"): Row(
        f"/files{PLACE}/<run>/<file>", keyed=True
    ),
    (
        "GET",
        "/artifactsV2/{region}/{entity}/{project}/{collection}/{birth}/{digest}/{name}",
    ): Row(f"/artifactsV2/local{PLACE}/<collection>/birth/<hex>/<file>", keyed=True),
    ("GET", "/artifactsV2/{region}/{entity}/{project}/{collection}/{digest}/{name}"): Row(
        f"/artifactsV2/local{PLACE}/<collection>/<hex>/<file>", keyed=True
    ),
    ("GET", "/login"): Row("/login", public=True),
    ("POST", "/login"): Row("/login", public=True, sent={"data": {"key": "wrong"}}),
    ("POST", "/login/link"): Row("/login/link", own=True, keyed=True),
    ("GET", "/static/{version}/{name:path}"): Row("/static/any/data.js", public=True),
    ("GET", f"/api/pages{PAGE}/runs/{{run}}/files/{{name:path}}"): Row(
        f"/api/pages{PLACE}/runs/<run>/files/<file>"
    ),
    ("GET", f"/api/pages{PAGE}/runs/{{run}}/history"): Row(f"/api/pages{PLACE}/runs/<run>/history"),
    ("GET", f"/api/pages{PAGE}{ARTIFACT}/{{version}}/files/{{name:path}}"): Row(
        f"/api/pages{VERSION}/v0/files/<file>"
    ),
    ("POST", f"/api/pages{PAGE}/sweeps/{{sweep}}/state"): Row(
        f"/api/pages{PLACE}/sweeps/<sweep>/state", sent={"json": {"action": "pause"}}
    ),
    ("GET", f"/api/pages{PAGE}/sweeps/{{sweep}}/importance"): Row(
        f"/api/pages{PLACE}/sweeps/<sweep>/importance"
    ),
    ("GET", f"/api/pages{PAGE}/curves"): Row(f"/api/pages{PLACE}/curves?metric=loss&runs=<run>"),
    **{
        ("GET", f"{start}{path}"): Row(f"{start}{row.address}", own=row.own)
        for start in ("", "/api/pages", "/api/events")
        for path, row in VIEWS.items()
    },
    ("POST", "/logout"): Row("/logout", public=True),  # last: it ends what the others need
}


@dataclass(frozen=True)
class Site:
    """A served backend with two users, who are signed in."""

    served: ServedBackend
    world: World
    browsers: Mapping[str, requests.Session]

    def ask(self, method: str, row: Row, client: Client | None) -> tuple[int, str]:
        """Return status and the beginning of an answer to a user with key and session."""
        browser = self.browsers[client.entity] if client else requests.Session()
        reply = browser.request(
            method,
            f"{self.served.url}{self.world.fill(row.address)}",
            auth=("api", client.key) if client and row.keyed else None,
            headers={"Origin": self.served.url},
            stream=True,
            allow_redirects=False,
            timeout=30,
            **row.sent,
        )
        with reply:
            first = next(reply.iter_content(1 << 16), b"")
        return reply.status_code, first.decode("utf-8", "replace")

    def rows(self) -> Rows:
        with read_only(self.served.data / DATABASE) as db:
            return read_rows(db)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    served = serve_backend(tmp_path_factory.mktemp("two") / "data")
    world = make_world(served)
    browsers = {client.entity: requests.Session() for client in (world.ann, world.eve)}
    for client in (world.ann, world.eve):
        assert log_in(browsers[client.entity], served.url, client.key).status_code == 303
    yield Site(served, world, browsers)
    served.end()


def test_every_address_of_the_server_has_a_row(tmp_path: Path) -> None:
    backend = Backend(tmp_path)
    routes = [route for route in build_app(backend).routes if isinstance(route, Route)]
    backend.close()
    found = {
        (method, route.path) for route in routes for method in (route.methods or set()) - {"HEAD"}
    }
    assert found == ROWS.keys()


def test_what_is_another_user_s_is_given_to_nobody(site: Site) -> None:
    before = site.rows()
    left = {hash_key(cookie.value or "") for cookie in site.browsers[site.world.eve.entity].cookies}
    for (method, path), row in ROWS.items():
        forged = replace(row, address=_later(site.world.fill(row.address))) if row.signed else row
        for client in (site.world.eve, None):
            status, answer = site.ask(method, forged, client)
            assert not site.world.leaks(answer, forged.address), (path, answer)
            assert status in _refusals(row, client), (method, path, status, answer)
    # Who signs out ends what is theirs, and nobody else's.
    before["sessions"] = {one for one in before["sessions"] if one[0] not in left}
    assert site.rows() == before


def _refusals(row: Row, client: Client | None) -> tuple[int, ...]:
    """Return what may be said to somebody to whom it does not belong."""
    if row.public:
        return (200, 303, 401)
    if client is None:  # a page sends a visitor to sign in
        return (401, 403, 303)
    return (200,) if row.own else (403, 404)


def _later(address: str) -> str:
    """Return a signed address with a later end."""
    parts = address.split("/")
    return "/".join([*parts[:4], str(int(parts[4]) + 1), *parts[5:]])


@pytest.mark.parametrize(
    ("place", "other"),
    [(1, "upload"), (2, "artifact_files"), (2, "artifacts"), (3, "2"), (4, "99999999999")],
    ids=["action", "table", "manifest", "row", "end"],
)
def test_a_signature_is_good_for_what_it_signs_alone(site: Site, place: int, other: str) -> None:
    parts = site.world.names["download"].split("/")[:6]
    assert requests.get(site.served.url + "/".join(parts), timeout=30).status_code == 200
    parts[place] = other
    method = "PUT" if parts[1] == "upload" else "GET"
    reply = requests.request(method, site.served.url + "/".join(parts), data=b"x", timeout=30)
    assert (reply.status_code, "not signed by this server" in reply.text) == (403, True)


def test_an_agent_s_key_is_refused_what_is_not_its_sweep_s(site: Site) -> None:
    before = site.rows()
    for path in ("/deployer/copy", "/login/link", "/files/{entity}/{project}/{run}/file_stream"):
        (method, row), *_ = ((key[0], row) for key, row in ROWS.items() if key[1] == path)
        reply = requests.request(
            method,
            site.served.url + site.world.fill(row.address),
            auth=("api", site.world.agent.key),
            timeout=30,
            **row.sent,
        )
        assert reply.status_code == 403, (path, reply.text)
    assert site.rows() == before


def test_the_owner_is_answered(site: Site) -> None:
    """Else the rows above would prove nothing. It comes last: it changes something."""
    for (method, path), row in ROWS.items():
        status, answer = site.ask(method, row, site.world.ann)
        assert status == 200 or row.public, (method, path, status, answer)
