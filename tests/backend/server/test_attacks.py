"""What nobody's client sends, refused one by one; the server goes on."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests  # noqa: TID251 - an attacker is a client of its own

from deployer.backend.graphql.schema import (
    DEEPEST,
    MOST_FIELDS,
    MOST_LETTERS,
    MOST_LISTS,
    MOST_TOKENS,
)
from deployer.backend.request import LARGEST_INT
from deployer.backend.server.app import MOST_BYTES
from tests.backend.client import UPSERT_SWEEP, Client, grid
from tests.backend.pages_browser import log_in
from tests.conftest import ServedBackend

GZIP = {"Content-Encoding": "gzip"}
BOMB = gzip.compress(b'{"query": "' + b" " * (MOST_BYTES + 1) + b'"}', compresslevel=1)


def deep(levels: int) -> str:
    return "{ viewer " + "{ teams { edges { node " * levels + "{ id }" + " } } }" * levels + " }"


def spread(levels: int) -> str:
    """Return a short document that asks for 2 ** levels fields."""
    fragments = [
        f"fragment F{n} on User {{ a: id ...F{n + 1} ...F{n + 1} }}" for n in range(levels)
    ]
    return f"{{ viewer {{ ...F0 }} }} {' '.join(fragments)} fragment F{levels} on User {{ id }}"


def chain(links: int) -> str:
    fragments = [f"fragment F{n} on User {{ ...F{n + 1} }}" for n in range(links)]
    return f"{{ viewer {{ ...F0 }} }} {' '.join(fragments)} fragment F{links} on User {{ id }}"


def aliases(count: int) -> str:
    many = " ".join(f"a{n}: runs {{ edges {{ node {{ id }} }} }}" for n in range(count))
    return f'{{ project(name: "p") {{ {many} }} }}'


READ = """
query Read($project: String!) { project(name: $project) {
  runs(order: "-summary_metrics.loss") { edges { node { name displayName config summaryMetrics tags
    historyLineCount history sampledHistory(specs: ["{}", "{\\"keys\\": [\\"loss\\"]}"]) historyKeys
    systemMetrics wandbConfig exitcode state logLines { edges { node { line } } } } } }
  sweeps { edges { node { displayName config bestLoss runCountExpected } } } } }
"""


@pytest.mark.parametrize(
    ("body", "headers", "status", "said"),
    [
        (BOMB, GZIP, 413, f"the body is bigger than {MOST_BYTES} bytes"),
        (b"not gzip", GZIP, 400, "the body is not gzip"),
        (gzip.compress(b"{}" * 100)[:-5], GZIP, 400, "the body is not gzip: its end is missing"),
        (b"[" * 100_000, {}, 400, "the body is nested more than 100 levels deep"),
        (b"[]", {}, 400, "the body is not a JSON object"),
        (b"\xff\xfe", {}, 400, "the body is not JSON"),
    ],
    ids=["bomb", "not gzip", "cut off", "deep", "list", "not UTF-8"],
)
def test_bodies(
    client: Client, body: bytes, headers: Mapping[str, str], status: int, said: str
) -> None:
    reply = requests.post(
        f"{client.url}/graphql", body, auth=("api", client.key), headers=headers, timeout=30
    )
    assert (reply.status_code, said in reply.text) == (status, True), reply.text
    client.ask("{ viewer { id } }")


def test_a_body_without_an_end_is_cut_off(client: Client) -> None:
    blocks = (b" " * 1024 * 1024 for _ in range(MOST_BYTES // 2**20 + 2))
    reply = requests.post(f"{client.url}/graphql", blocks, auth=("api", client.key), timeout=30)
    assert (reply.status_code, "bigger than" in reply.text) == (413, True)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (deep(DEEPEST), f"the query asks for more than {DEEPEST} levels"),
        (deep(3000), "nested too deeply"),
        (spread(DEEPEST - 5), f"the query asks for more than {MOST_FIELDS} fields"),
        (aliases(MOST_LISTS + 1), f"the query asks for more than {MOST_LISTS} lists"),
        ("{ viewer { ...A } } fragment A on User { ...A }", "within itself"),
        ("{ viewer { id } " + "x " * MOST_TOKENS + "}", "token"),
        ("{ viewer { id } } #" + "x" * MOST_LETTERS, f"more than {MOST_LETTERS} characters"),
        (chain(DEEPEST), f"the query asks for more than {DEEPEST} levels"),
        (chain(110), f"the query asks for more than {DEEPEST} levels"),
    ],
    ids=[
        "deep",
        "very deep",
        "spread",
        "aliases",
        "endless",
        "long",
        "comment",
        "chain",
        "long chain",
    ],
)
def test_queries(client: Client, query: str, said: str) -> None:
    reply = client.post(query)
    assert (reply.status_code, said in json.dumps(reply.json())) == (400, True), reply.text[:500]


@pytest.mark.parametrize("key", ["", "k" * 40])
@pytest.mark.parametrize("path", ["/graphql", "/files/a/b/c/file_stream"])
@pytest.mark.parametrize(
    "body", [b"[", b"{}", BOMB[:60_000], json.dumps({"query": "{ a }"}).encode()]
)
def test_nothing_of_a_stranger_is_parsed(client: Client, key: str, path: str, body: bytes) -> None:
    headers = GZIP if body.startswith(b"\x1f") else {}
    reply = requests.post(client.url + path, body, auth=("api", key), headers=headers, timeout=30)
    assert (reply.status_code, "the API key is not valid" in reply.text) == (401, True)


def test_others_are_answered_while_a_document_is_parsed(client: Client) -> None:
    unknown = " ".join(f"x{number}: 1" for number in range(300))
    costly = f"mutation {{ upsertSweep(input: {{{unknown}}}) {{ sweep {{ id }} }} }}"
    answered = 0
    with ThreadPoolExecutor() as pool, requests.Session() as other:
        refused = pool.submit(client.post, costly)
        while not refused.done():
            assert other.get(f"{client.url}/healthz", timeout=30).text == "ok"
            answered += 1
    assert refused.result().status_code == 400
    assert answered > 2  # one before and one after would be a server that reads


def anchors(levels: int, merged: bool = False) -> str:
    """Return a short configuration of 10 ** levels values."""
    lines = ["method: grid", "parameters: {x: {values: [1]}}", "a0: &a0 {x: 1}"]
    for level in range(levels):
        many = ", ".join([f"*a{level}"] * 10)
        lines.append(
            f"a{level + 1}: &a{level + 1} " + (f"{{<<: [{many}]}}" if merged else f"[{many}]")
        )
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (anchors(6), "has more than 250000 values"),
        (anchors(40), "has more than 250000 values"),
        (anchors(9, merged=True), "has more than 250000 values"),
        ("a: &a [*a]", "nested more than 100 levels deep"),
        ("a: " + "[" * 500, "nested more than 100 levels deep"),
        ("a: !!int x", "is not YAML"),
        ("a: " + "9" * 5000, "is not YAML"),
        ("a: 2020-99-99", "is not YAML"),
        ("#" + "x" * 2_000_000, "00000 characters"),
    ],
    ids=["wide", "endless", "merged", "in itself", "deep", "tag", "number", "date", "long"],
)
def test_configurations(client: Client, config: str, said: str) -> None:
    inline = f"mutation {{ upsertSweep(input: {{config: {json.dumps(config)}}}) {{ __typename }} }}"
    for reply in (client.post(UPSERT_SWEEP, config=config), client.post(inline)):
        assert (reply.status_code, said in reply.text) == (400, True), reply.text


def test_others_write_while_a_configuration_is_read(client: Client) -> None:
    client.init_run("r")
    config = {**grid(x=range(4000)), "name": "big"}
    rows = 0
    with ThreadPoolExecutor() as pool:
        made = pool.submit(client.create_sweep, config)
        while not made.done():
            client.log("r", [{"_step": rows}], offset=rows)
            rows += 1
    assert client.sweep(made.result())["runCountExpected"] == 4000
    assert rows > 2


OFF_BY_MUCH = ["x", {"a": 1}, -1, 10**18, "\ud800", "[" * 1250]
OTHERS_OFF = [3, True, [1], 1.5, "[]"]
STREAMS = [
    {"files": ...},
    {"files": {"wandb-history.jsonl": ...}},
    {"files": {"wandb-history.jsonl": {"offset": ..., "content": ["{}"]}}},
    {"files": {"wandb-history.jsonl": {"offset": 0, "content": ...}}},
    {"files": {"wandb-history.jsonl": {"offset": 0, "content": [...]}}},
    {"files": {"wandb-summary.json": {"content": [...]}}},
    {"files": {"output.log": {"content": [...]}}},
    {"exitcode": ..., "complete": False},
]
IN_PROJECT, IN_RUN = "runs(%s: $f) { totalCount }", 'run(name: "r") { %s }'
FIELDS = {
    "JSONString": [IN_PROJECT % "filters"],
    "String": [
        *(IN_PROJECT % name for name in ("after", "order")),
        IN_RUN % "logLines(after: $f) { totalCount }",
    ],
    "Int64": [IN_RUN % "history(minStep: $f)"],
    "[JSONString!]!": [IN_RUN % "sampledHistory(specs: $f)"],
}
CHANGES = {
    'name: "s", config: $f': "JSONString",
    'name: "s", summaryMetrics: $f': "JSONString",
    'name: "s", state: $f': "String",
    "id: $f": "String",
}
DOCUMENTS = [
    *(
        f"query($p: String!, $f: {kind}) {{ project(name: $p) {{ {field} }} }}"
        for kind, fields in FIELDS.items()
        for field in fields
    ),
    *(
        f"mutation($p: String!, $f: {kind}) {{ upsertBucket(input: {{modelName: $p, {field}}})"
        " { bucket { wandbConfig } } }"
        for field, kind in CHANGES.items()
    ),
    "mutation($p: String!, $f: String)"
    " { upsertSweep(input: {projectName: $p, config: $f}) { sweep { id } } }",
]


def filled(shape: Any, value: Any) -> Any:
    """Return a shape with a value in the place of its `...`."""
    if isinstance(shape, dict):
        return {key: filled(inner, value) for key, inner in shape.items()}
    if isinstance(shape, list):
        return [filled(inner, value) for inner in shape]
    return value if shape is ... else shape


@pytest.mark.parametrize(
    "value",
    [*OFF_BY_MUCH, *(pytest.param(value, marks=pytest.mark.full) for value in OTHERS_OFF)],
    ids=range(len(OFF_BY_MUCH) + len(OTHERS_OFF)),
)
def test_what_has_another_form_is_refused_for_good(client: Client, value: Any) -> None:
    """Not by 500, on which the SDK would try again; and all that was stored can be read."""
    client.init_run("r")
    client.log("r", [{"_step": 0, "loss": 1.0}])
    for number, shape in enumerate(STREAMS):
        reply = client.stream("r", **filled(shape, value))
        assert reply.status_code in (200, 400), (number, reply.text)
    for document in DOCUMENTS:
        for text in (value, json.dumps(value), json.dumps({"$and": value, "_wandb": value})):
            reply = client.post(document, p=client.project, f=text)
            assert reply.status_code in (200, 400, 404), (document, reply.text)
    found = client.ask(READ)["project"]["runs"]["edges"]
    assert {edge["node"]["name"] for edge in found} <= {"r", "s"}
    page = requests.Session()
    log_in(page, client.url, client.key)
    for path in (f"{client.entity}/{client.project}", f"{client.entity}/{client.project}/runs/r"):
        assert page.get(f"{client.url}/api/pages/{path}", timeout=30).status_code == 200


def test_a_line_that_is_no_row_is_left_out(client: Client) -> None:
    client.init_run("r")
    rows = ['{"_step": 0, "loss": 1}', '{"a":' * 100_000, "no JSON", '{"_step": 3, "loss": NaN}']
    files = {"wandb-history.jsonl": {"offset": 0, "content": rows}}
    assert client.stream("r", files=files).status_code == 200
    run = client.run("r")
    assert (run["historyLineCount"], len(run["history"])) == (4, 2)


@pytest.mark.parametrize("place", ["run_files/1/2/é", f"run_files/{'9' * 5000}/2/x", "x/1/2/y"])
@pytest.mark.parametrize("action", ["upload", "download"])
def test_an_address_of_nobody_s(client: Client, action: str, place: str) -> None:
    method = "PUT" if action == "upload" else "GET"
    reply = requests.request(method, f"{client.url}/{action}/{place}", timeout=30)
    assert reply.status_code in (403, 404)


def test_no_file_of_the_data_folder_is_others_to_read(backend: ServedBackend) -> None:
    client = Client.of(backend, "modes")
    client.init_run("r")
    client.upload("r", "x.txt", b"x")
    files = [path for path in backend.data.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert [path for path in files if path.stat().st_mode & 0o077] == []


def test_a_grid_without_an_end_is_one(client: Client) -> None:
    sweep = client.create_sweep(grid(**{f"x{number}": range(1000) for number in range(8)}))
    assert client.sweep(sweep)["runCountExpected"] == LARGEST_INT
    assert client.work_once(client.create_agent(sweep), loss=1.0)


@pytest.mark.parametrize(
    ("path", "status"),
    [("/graphql", b"401"), ("/files/a/b/c/file_stream", b"401"), ("/login", b"413")],
)
def test_a_stranger_s_big_body_is_not_waited_for(client: Client, path: str, status: bytes) -> None:
    """The answer is there while most of the body is still to come."""
    place = urlsplit(client.url)
    head = f"POST {path} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: 10000000\r\n\r\n"
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=30) as stranger:
        stranger.sendall(head.encode() + b" " * 100_000)
        assert stranger.recv(4096).startswith(b"HTTP/1.1 " + status)
