"""The door to W&B: every way to fail in the server's words, and what it reads from one."""

from __future__ import annotations

import json
import socket
import threading
import uuid
from collections.abc import ItemsView, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests  # noqa: TID251 - whose exceptions must all be mapped

from deployer.errors import WandbError
from deployer.model import SweepPath
from deployer.wandb_api.artifacts import read_file
from deployer.wandb_api.client import TROUBLES, Client, translate
from deployer.wandb_api.model import (
    parse_run,
    parse_sweep,
    parse_sweep_path,
    parse_time,
)
from deployer.wandb_api.operations import (
    build_sweep_url,
    create_agent_keys,
    create_sweep,
    get_snapshot,
    get_sweep,
    get_viewer,
    list_projects,
    list_sweeps,
    set_sweep_state,
)
from tests.conftest import FOREIGN_KEY, ServedBackend

GRID = "method: grid\nmetric: {name: loss, goal: minimize}\nparameters: {lr: {values: [1, 2]}}\n"


@dataclass
class Script:
    """What a server answers, one reply a request; the last one again and again."""

    replies: list[tuple[int, dict[str, str], str]]
    asked: list[dict[str, str]] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def scripted() -> Iterator[Script]:
    """Serve a script over real HTTP."""
    script = Script([])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            script.asked.append({"body": body.decode(), **dict(self.headers.items())})
            status, headers, text = script.replies[0]
            if len(script.replies) > 1:
                script.replies.pop(0)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(text)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_port}"
    yield script
    server.shutdown()
    thread.join()
    server.server_close()


def all_subclasses(kind: type[BaseException]) -> set[type[BaseException]]:
    found = set(kind.__subclasses__())
    return found.union(*(all_subclasses(sub) for sub in found))


def test_every_exception_of_requests_is_mapped() -> None:
    ours = {kind for kind, _, _ in TROUBLES}
    for kind in all_subclasses(requests.RequestException):
        if kind.__module__ == "requests.exceptions" and not issubclass(kind, Warning):
            assert ours & set(kind.__mro__), f"{kind.__name__} is not in TROUBLES"
            error = translate("http://w", kind.__new__(kind))  # type: ignore[arg-type]
            assert error.status == 0
            assert error.hint


@pytest.mark.parametrize(
    ("status", "body", "message", "hint"),
    [
        (401, '{"errors":[{"message":"bad key"}],"data":null}', "bad key", "came from netrc"),
        (403, '{"error":"not yours"}', "not yours", "came from netrc"),
        (404, '{"errors":[{"message":"no such project"}]}', "no such project", ""),
        (404, "<html>", "HTTP 404 Not Found", "is this the address of a W&B server?"),
        (400, '{"errors":[{"message":"a"},{"message":"b"}]}', "a; b", ""),
        (200, '{"errors":[{"message":"odd"}],"data":null}', "odd", ""),
        (200, "hello", "HTTP 200 OK", "is this the address of a W&B server?"),
        (200, "[1]", "HTTP 200 OK", "is this the address of a W&B server?"),
        (501, '{"error":"cannot"}', "cannot", "the server has a problem"),
    ],
)
def test_the_servers_own_sentence_is_kept(
    scripted: Script, status: int, body: str, message: str, hint: str
) -> None:
    scripted.replies = [(status, {}, body)]
    with pytest.raises(WandbError) as caught:
        Client(scripted.url, FOREIGN_KEY, "netrc").execute("query Q { a }")
    assert caught.value.message == f"{scripted.url}: {message}"
    assert hint in caught.value.hint
    assert bool(hint) == bool(caught.value.hint)
    assert caught.value.status == status
    assert FOREIGN_KEY not in caught.value.message + caught.value.hint


def test_a_redirect_is_not_followed_with_a_key(scripted: Script) -> None:
    scripted.replies = [(301, {"Location": "https://elsewhere/graphql"}, "")]
    with pytest.raises(WandbError) as caught:
        Client(scripted.url, FOREIGN_KEY).execute("query Q { a }")
    assert caught.value.hint == "use the address https://elsewhere/graphql"
    assert len(scripted.asked) == 1


def test_a_passing_refusal_is_asked_again_after_the_time_that_the_server_says(
    scripted: Script,
) -> None:
    scripted.replies = [(429, {"Retry-After": "0"}, ""), (503, {}, ""), (200, {}, '{"data":{}}')]
    assert Client(scripted.url, FOREIGN_KEY).execute("query Q { a }") == {}
    assert len(scripted.asked) == 3
    assert len({asked["body"] for asked in scripted.asked}) == 1


def test_what_is_not_repeatable_is_sent_once(scripted: Script) -> None:
    scripted.replies = [(500, {}, "")]
    with pytest.raises(WandbError):
        Client(scripted.url, FOREIGN_KEY).execute("mutation M { a }", repeatable=False)
    assert len(scripted.asked) == 1


def test_a_change_is_sent_once_while_another_thread_asks(scripted: Script) -> None:
    scripted.replies = [(200, {}, '{"data":{}}'), (500, {"Retry-After": "0"}, "")]
    client = Client(scripted.url, FOREIGN_KEY)

    class Meanwhile(dict[str, int]):
        """Variables during whose encoding another thread asks something."""

        def items(self) -> ItemsView[str, int]:
            asking = threading.Thread(target=client.execute, args=("query Q { a }",))
            asking.start()
            asking.join()
            return super().items()

    with pytest.raises(WandbError):
        client.execute("mutation M { a }", Meanwhile(b=1), repeatable=False)
    asked = [json.loads(one["body"])["query"] for one in scripted.asked]
    assert asked == ["query Q { a }", "mutation M { a }"]


def test_the_key_goes_as_basic_authorization(scripted: Script) -> None:
    scripted.replies = [(200, {}, '{"data":{}}')]
    Client(scripted.url, "abc").execute("query Q { a }", {"b": 1})
    assert scripted.asked[0]["Authorization"] == "Basic YXBpOmFiYw=="
    assert json.loads(scripted.asked[0]["body"]) == {
        "query": "query Q { a }",
        "variables": {"b": 1},
    }


def test_null_viewer_is_a_bad_key(scripted: Script) -> None:
    scripted.replies = [(200, {}, '{"data":{"viewer":null}}')]
    with pytest.raises(WandbError, match="the key is not valid") as caught:
        get_viewer(Client(scripted.url, FOREIGN_KEY, "WANDB_API_KEY"))
    assert caught.value.hint.startswith("the key came from WANDB_API_KEY")


def test_nobody_there() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(WandbError) as caught:
            Client(url, FOREIGN_KEY).execute("query Q { a }")
    assert caught.value.message.startswith(f"{url}: cannot be reached (")
    assert "Connection refused" in caught.value.message
    assert caught.value.status == 0


def test_an_address_that_is_none() -> None:
    with pytest.raises(WandbError, match="is not an address"):
        Client("http://", FOREIGN_KEY).execute("query Q { a }")


def test_introspection_that_is_off_means_no_extensions(scripted: Script) -> None:
    scripted.replies = [(400, {}, '{"errors":[{"message":"introspection is disabled"}]}')]
    client = Client(scripted.url, "k" * 40)
    path = SweepPath("e", "p", "s")
    assert create_agent_keys(client, path, ("a", "b"), "m") == {"a": "k" * 40, "b": "k" * 40}
    assert len(scripted.asked) == 1


def test_runs_are_read_leniently() -> None:
    run = parse_run(
        {
            "name": "id",
            "displayName": "title",
            "state": "Finished",
            "config": '{"lr": {"value": 1.0}, "_wandb": {"value": {}}, "bare": 2}',
            "summaryMetrics": '{"loss": NaN, "best": -Infinity}',
            "createdAt": "2026-11-20T10:00:00",
        }
    )
    assert (run.run_id, run.title, run.state) == ("id", "title", "finished")
    assert run.config == {"lr": 1.0, "bare": 2}
    assert run.summary["loss"] != run.summary["loss"]
    assert run.summary["best"] == float("-inf")
    assert run.created_at == parse_time("2026-11-20T10:00:00Z") == 1795168800.0
    assert parse_run({"name": "id", "config": "{broken", "summaryMetrics": None}).config == {}


def test_a_sweep_config_may_be_anything() -> None:
    for config in (None, "- a list", "a: [", "text", "metric: text"):
        info = parse_sweep({"name": "s", "config": config}, SweepPath("e", "p", "s"))
        assert (info.method, info.metric_name, info.metric_goal) == ("", None, "minimize")


def test_paths_and_addresses() -> None:
    path = SweepPath("e", "p", "s")
    assert parse_sweep_path("e/p/s") == path
    for cloud in ("https://api.wandb.ai", "https://api.forge.coreweave.com"):
        assert build_sweep_url(cloud, path) == "https://forge.coreweave.com/wandb/e/p/sweeps/s"
    assert build_sweep_url(cloud, path, "https://own/") == "https://own/e/p/sweeps/s"
    assert build_sweep_url("http://h:1", path) == "http://h:1/e/p/sweeps/s"
    for wrong in ("s", "p/s", "a/b/c/d", "a//c"):
        with pytest.raises(WandbError, match="is not a sweep path"):
            parse_sweep_path(wrong)


@pytest.fixture(params=["backend", "plain_backend"])
def served(request: pytest.FixtureRequest) -> ServedBackend:
    """Give a backend as it is, then one that has nothing beyond W&B's own."""
    backend: ServedBackend = request.getfixturevalue(request.param)
    return backend


def test_a_sweeps_life_on_a_real_server(served: ServedBackend) -> None:
    client = Client(served.url, served.key)
    viewer = get_viewer(client)
    assert viewer.entity == served.entity
    project = f"door-{uuid.uuid4().hex[:8]}"
    assert list_sweeps(client, viewer.entity, project) == ()
    path, warnings = create_sweep(client, GRID, viewer.entity, project, uuid.uuid4().hex)
    assert warnings == ()
    info = get_sweep(client, path)
    assert (info.path, info.method, info.metric_name) == (path, "grid", "loss")
    assert info.expected == 2
    assert not info.ended
    assert [s.path for s in list_sweeps(client, viewer.entity, project)] == [path]
    assert project in list_projects(client, viewer.entity)
    snapshot = get_snapshot(client, path)
    assert (snapshot.sweep, snapshot.runs, snapshot.agents) == (info, (), ())
    set_sweep_state(client, info, "FINISHED")
    assert get_sweep(client, path).ended


def test_a_missing_sweep_has_status_404(served: ServedBackend) -> None:
    client = Client(served.url, served.key)
    with pytest.raises(WandbError) as caught:
        get_sweep(client, SweepPath(served.entity, "none", "nothere"))
    assert caught.value.status == 404


def test_the_server_says_why_it_sends_no_file(served: ServedBackend) -> None:
    client = Client(served.url, served.key)
    entity = get_viewer(client).entity
    sent = read_file(client, f"{served.url}/files/{entity}/none/r/x.txt")
    with pytest.raises(WandbError, match=r"a file: project .*none.* not found"):
        next(sent)


def test_the_embedded_backend_makes_one_sweep_for_one_mutation_id(backend: ServedBackend) -> None:
    client = Client(backend.url, backend.key)
    project, mutation_id = f"once-{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
    first = create_sweep(client, GRID, backend.entity, project, mutation_id)
    assert create_sweep(client, GRID, backend.entity, project, mutation_id) == first
    assert len(list_sweeps(client, backend.entity, project)) == 1


def test_agents_get_keys_of_their_own_where_the_server_makes_them(
    backend: ServedBackend, plain_backend: ServedBackend
) -> None:
    for served, own in ((backend, True), (plain_backend, False)):
        client = Client(served.url, served.key)
        path, _ = create_sweep(client, GRID, served.entity, "keys", uuid.uuid4().hex)
        keys = create_agent_keys(client, path, ("a", "b"), uuid.uuid4().hex)
        assert set(keys) == {"a", "b"}
        assert (served.key not in keys.values()) is own
        assert len(set(keys.values())) == (2 if own else 1)


def test_a_foreign_key_is_refused(backend: ServedBackend) -> None:
    with pytest.raises(WandbError) as caught:
        get_viewer(Client(backend.url, FOREIGN_KEY, "WANDB_API_KEY"))
    assert caught.value.status == 401
    assert "the key came from WANDB_API_KEY" in caught.value.hint
