"""What the SDKs ask, with each field in turn of another form: no answer above 499."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import requests  # noqa: TID251 - a test is a client of its own
from graphql import (
    DocumentNode,
    GraphQLInputObjectType,
    GraphQLInputType,
    GraphQLList,
    GraphQLNonNull,
    OperationDefinitionNode,
    print_ast,
    type_from_ast,
)

from tests.backend.client import Client, grid
from tests.conftest import ServedBackend, serve_backend
from tests.contract.contract import FOLDER, read_contract
from tests.contract.documents import join_document
from tests.contract.served import served_schema

WRONG: tuple[Any, ...] = (
    *(None, True, 3, -1, 1.5, 10**18, 10**400, float("nan"), "", "x", "é\x00\ud800", "²", "null"),
    *(
        "NaN",
        "[]",
        "[1]",
        '{"a": 1}',
        '{"_wandb": {"value": 3}}',
        '{"$and": {"a": 1}}',
        "a: &a [*a]",
    ),
    *(
        '{"name": {"$regex": "^(a|a)+$b"}}',
        "[" * 5000,
        "x" * 100_000,
        "UnVuOjk5OTk5OTk5OTk5OTk5OTk5",
    ),
    *([], [[]], {}, {"a": 1}, {"value": [None]}),
)
STREAM = {
    "complete": False,
    "exitcode": 0,
    "preempting": False,
    "dropped": 0,
    "uploaded": ["x.txt"],
    "files": {
        "output.log": {"offset": 0, "content": ["line"]},
        "wandb-events.jsonl": {"offset": 0, "content": ['{"_runtime": 1}']},
        "wandb-history.jsonl": {"offset": 0, "content": ['{"_step": 0, "loss": 1}']},
        "wandb-summary.json": {"offset": 0, "content": ['{"loss": 1}']},
    },
}
SCALARS = {"Int": 1, "Int64": 1, "Float": 1.0, "Boolean": True, "JSONString": "{}", "JSON": {}}

Asked = tuple[str, dict[str, Any]]  # a document or a path, and its variables or its body


def sample_of(kind: GraphQLInputType, name: str, world: Mapping[str, Any]) -> Any:
    """Return a value of a type, with the world's values for the names of things."""
    if isinstance(kind, GraphQLNonNull):
        return sample_of(kind.of_type, name, world)
    if isinstance(kind, GraphQLList):
        return [sample_of(kind.of_type, name, world)]
    if isinstance(kind, GraphQLInputObjectType):
        return {key: sample_of(field.type, key, world) for key, field in kind.fields.items()}
    named = next((value for part, value in world.items() if part in name.lower()), "x")
    return SCALARS.get(str(kind), named)


def mutations(value: Any) -> Iterator[Any]:
    """Yield a value with each of its parts in turn replaced."""
    yield from WRONG
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {name: part for name, part in value.items() if name != key}
            yield from ({**value, key: other} for other in mutations(inner))
    elif isinstance(value, list):
        yield from ([other] for inner in value for other in mutations(inner))


@cache
def list_documents() -> dict[str, DocumentNode]:
    """Return each document that some SDK sends, by its text."""
    found = {}
    for path in sorted(FOLDER.glob("sdk-*.yaml")):
        contract = read_contract(path.read_text())
        for questions in contract.graphql.values():
            for one in questions:
                document = join_document(one.document, contract.fragments)
                found[print_ast(document)] = document
    return found


def list_requests(world: Mapping[str, Any], stream: str) -> list[Asked]:
    asked = [(stream, body) for body in mutations(STREAM) if isinstance(body, dict)]
    for text, document in list_documents().items():
        for part in document.definitions:
            if isinstance(part, OperationDefinitionNode):
                kinds = {
                    one.variable.name.value: type_from_ast(served_schema(), one.type)
                    for one in part.variable_definitions or ()
                }
                right = {name: sample_of(kind, name, world) for name, kind in kinds.items()}
                asked += [(text, body) for body in mutations(right) if isinstance(body, dict)]
    return asked


class Watch(Thread):
    """Asks for the health of a server again and again."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.longest, self.answered, self.over, self._url = 0.0, 0, Event(), url

    def run(self) -> None:
        with requests.Session() as session:
            while not self.over.wait(0.02):
                begun = time.monotonic()
                self.answered += session.get(f"{self._url}/healthz", timeout=30).text == "ok"
                self.longest = max(self.longest, time.monotonic() - begun)


@pytest.mark.parametrize(
    "count", [400, pytest.param(10_000, marks=pytest.mark.full)], ids=["some", "many"]
)
def test_no_form_of_a_request_is_an_error_of_the_server(tmp_path: Path, count: int) -> None:
    served = serve_backend(tmp_path / "data")
    client = Client.of(served, "p")
    run = client.init_run("r")
    client.log("r", [{"_step": 0, "loss": 1.0}])
    sweep = client.create_sweep(grid(x=[1, 2]))
    names = {"project": "p", "model": "p", "entity": client.entity, "sweep": sweep}
    world = {**names, "agent": client.create_agent(sweep), "run": "r", "name": "r", "id": run["id"]}
    asked = list_requests(world, f"/files/{client.entity}/p/r/file_stream")
    chosen = random.Random(0).sample(asked, count)
    watch = Watch(served.url)
    watch.start()
    try:
        failed = [one for one in chosen if send(served, *one) >= 500]
    finally:
        watch.over.set()
        watch.join()
        served.end()
    assert failed == []
    assert watch.answered > 1
    assert count < 10_000 or watch.longest < 1


def send(served: ServedBackend, what: str, body: dict[str, Any]) -> int:
    """Return the status of the answer."""
    is_stream = what.startswith("/")
    sent = json.dumps(body if is_stream else {"query": what, "variables": body})
    url = served.url + (what if is_stream else "/graphql")
    with requests.post(url, sent, auth=("api", served.key), timeout=60) as reply:
        return reply.status_code
