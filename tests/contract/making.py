"""Makes a contract of a session: each form once, without ids, times and sizes."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from tests.contract.contract import Contract, Question
from tests.contract.documents import read_document
from tests.contract.recording import Exchange, Session
from tests.contract.served import find_unserved
from tests.contract.shapes import Shape, always_null, shape_of, variables_shape

# What the addresses of this server stand for; others are kept as they are but for numbers.
PLACES = (
    (r"/files/[^/]+/[^/]+/[^/]+/file_stream", "/files/ENTITY/PROJECT/RUN/file_stream"),
    (r"/files/[^/]+/[^/]+/[^/]+/.+", "/files/ENTITY/PROJECT/RUN/NAME"),
    (r"/(upload|download)/.+", r"/\1/SIGNED"),
    (r"/artifactsV2/.+", "/artifactsV2/DIGEST"),
    (r"/[^/]*\d[^/]*", "/ID"),
)


def build_contract(session: Session) -> Contract:
    """Make a contract of what was recorded."""
    asked = [exchange for exchange in session.exchanges if exchange.path == "/graphql"]
    others = [exchange for exchange in session.exchanges if exchange.path != "/graphql"]
    fragments = shared_fragments(asked)
    return Contract(
        session.version,
        {step: text.partition(":")[0] for step, text in session.failed.items()},
        tuple(sorted(session.differs)),
        tuple(find_unserved(session.package)),
        build_questions(asked, fragments),
        fragments,
        build_requests(others),
    )


def shared_fragments(asked: Iterable[Exchange]) -> dict[str, str]:
    """Return the fragments by name; one that has two texts takes its commoner one."""
    texts: dict[str, Counter[str]] = defaultdict(Counter)
    for exchange in asked:
        for name, text in read_document(json.loads(exchange.sent)["query"]).fragments.items():
            texts[name][text] += 1
    return {name: max(sorted(found), key=found.__getitem__) for name, found in texts.items()}


def build_questions(
    asked: Iterable[Exchange], fragments: Mapping[str, str]
) -> dict[str, tuple[Question, ...]]:
    """Return the distinct documents by operation name."""
    calls: dict[tuple[str, str], list[Exchange]] = defaultdict(list)
    for exchange in asked:
        document = read_document(json.loads(exchange.sent)["query"])
        own = [text for name, text in document.fragments.items() if text != fragments[name]]
        calls[document.name, "\n".join([document.text, *sorted(own)])].append(exchange)
    questions: dict[str, tuple[Question, ...]] = {}
    for (name, text), exchanges in sorted(calls.items()):
        questions[name] = (*questions.get(name, ()), build_question(text, exchanges))
    return questions


def build_question(document: str, exchanges: list[Exchange]) -> Question:
    """Bring together what was sent and answered with one document."""
    sent = [json.loads(exchange.sent).get("variables") or {} for exchange in exchanges]
    answers = [json.loads(exchange.answered) for exchange in exchanges]
    data = [answer["data"] for answer in answers if answer.get("data")]
    refused = {
        f"{exchange.status} {answer['errors'][0]['message']}"
        for exchange, answer in zip(exchanges, answers, strict=True)
        if answer.get("errors")
    }
    empty = always_null(data) if data else []
    return Question(document, variables_shape(sent), tuple(sorted(refused)), tuple(empty))


def build_requests(others: Iterable[Exchange]) -> dict[str, dict[str, Any]]:
    """Return what is asked past GraphQL, by method and place."""
    calls: dict[str, list[Exchange]] = defaultdict(list)
    for exchange in others:
        calls[f"{exchange.method} {place_of(exchange.path)}"].append(exchange)
    return {
        place: {
            "status": sorted({exchange.status for exchange in exchanges}),
            "sends": bodies_shape(place, [exchange.sent for exchange in exchanges]),
            "answers": bodies_shape(place, [exchange.answered for exchange in exchanges]),
        }
        for place, exchanges in sorted(calls.items())
    }


def place_of(path: str) -> str:
    """Return what an address stands for."""
    for pattern, place in PLACES[:-1]:
        if re.fullmatch(pattern, path):
            return re.sub(pattern, place, path)
    return re.sub(*PLACES[-1], path)


def bodies_shape(place: str, bodies: list[bytes]) -> Shape:
    """Return the shape of JSON bodies; of others only that there are any."""
    if not place.endswith("/file_stream"):
        return "bytes" if any(bodies) else "null"
    chunks = [json.loads(body) for body in bodies]
    for chunk in chunks:
        for part in chunk.get("files", {}).values():
            part["content"] = [line_of(line) for line in part["content"]]
    return shape_of(chunks)


def line_of(line: str) -> Any:
    """Return a streamed line, without the keys that users and machines choose."""
    try:
        decoded = json.loads(line)
    except ValueError:
        return line
    if isinstance(decoded, dict) and not {"content", "ts"} <= set(decoded):
        return {key: value for key, value in decoded.items() if key.startswith("_")}
    return decoded
