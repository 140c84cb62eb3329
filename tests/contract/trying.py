"""What a release asks that the newest kept contract does not have, and what it is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from graphql import TypeInfo, TypeInfoVisitor, visit
from graphql.language import SKIP, ArgumentNode, FieldNode, Visitor, VisitorAction

from tests.contract.contract import Contract
from tests.contract.documents import join_document, read_document
from tests.contract.making import place_of
from tests.contract.recording import Exchange, Session
from tests.contract.served import find_missing, find_unserved, is_explained, served_schema


@dataclass(frozen=True)
class Trial:
    """What was found; the first three are to be mended before the release is supported."""

    unserved: tuple[str, ...]
    failed: tuple[str, ...]
    differs: tuple[str, ...]
    new: tuple[str, ...]
    vanished: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Tell whether the release may be recorded as it is."""
        return not (self.unserved or self.failed or self.differs)


def compare(session: Session, contract: Contract, kept: Contract) -> Trial:
    """Compare a release's session and the contract made of it with the newest kept one."""
    asked, known = list_asked(contract), list_asked(kept)
    failed = {step: text for step, text in session.failed.items() if step not in kept.failed}
    return Trial(
        tuple(sorted({*refusals(session, kept), *gaps(session)})),
        tuple(f"{step}: {text}" for step, text in failed.items()),
        tuple(f"{k}: {v}" for k, v in session.differs.items() if k not in kept.differs),
        tuple(sorted(asked - known)),
        tuple(sorted(known - asked)),
    )


def refusals(session: Session, kept: Contract) -> Iterator[str]:
    """Yield what was refused and is not in the kept contract, and what the SDK did then."""
    known = {
        (name, text)
        for name, questions in kept.graphql.items()
        for question in questions
        for text in question.refused
    }
    for exchange in session.exchanges:
        if exchange.status < 400:
            continue
        if exchange.path != "/graphql":
            asked, said = f"{exchange.method} {place_of(exchange.path)}", str(exchange.status)
        else:
            asked = read_document(json.loads(exchange.sent)["query"]).name
            message = json.loads(exchange.answered)["errors"][0]["message"]
            said = f"{exchange.status} {message}"
        if (asked, said) not in known:
            yield f"{asked}: {said}; {aftermath(session, exchange)}"


def aftermath(session: Session, exchange: Exchange) -> str:
    """Return what became of the step in which something was refused."""
    if exchange.step in session.failed:
        return f"the step {exchange.step!r} failed"
    return f"the step {exchange.step!r} went on without"


def gaps(session: Session) -> Iterator[str]:
    """Yield the operations in the SDK's source that are neither served nor explained."""
    for operation, missing in find_unserved(session.package).items():
        if not is_explained(operation):
            yield f"{operation}, in its source: {', '.join(sorted(missing))}"


def list_asked(contract: Contract) -> set[str]:
    """Return the operations, fields and arguments that a contract has, and its other requests."""
    asked = set(contract.graphql)
    for questions in contract.graphql.values():
        for question in questions:
            asked |= list_fields(question.document, contract.fragments)
    return asked | list_requests(contract.http)


def list_fields(document: str, fragments: Mapping[str, str]) -> set[str]:
    """Return what a document selects, as `Type.field` and `Type.field(argument)`."""
    found: set[str] = set()
    types = TypeInfo(served_schema())

    class Fields(Visitor):
        def enter_field(self, node: FieldNode, *_: object) -> None:
            parent = types.get_parent_type()
            if parent and not node.name.value.startswith("__"):
                found.add(f"{parent.name}.{node.name.value}")

        def enter_directive(self, *_: object) -> VisitorAction:
            return SKIP  # its arguments are not the field's

        def enter_argument(self, node: ArgumentNode, *_: object) -> None:
            parent, field = types.get_parent_type(), types.get_field_def()
            if parent and field and field.ast_node:
                found.add(f"{parent.name}.{field.ast_node.name.value}({node.name.value})")

    joined = join_document(document, fragments)
    visit(joined, TypeInfoVisitor(types, Fields()))
    return found | find_missing(joined)


def list_requests(http: Mapping[str, Mapping[str, object]]) -> set[str]:
    """Return the requests past GraphQL and the keys of their bodies."""
    return {
        f"{place} {path}".strip()
        for place, row in http.items()
        for path in ("", *_paths(row.get("sends")))
    }


def _paths(shape: object, path: str = "") -> Iterator[str]:
    if isinstance(shape, list):
        for item in shape:
            yield from _paths(item, path)
    if isinstance(shape, Mapping):
        for key, value in shape.items():
            yield f"{path}/{key}"
            yield from _paths(value, f"{path}/{key}")


def render(trial: Trial, version: str, kept: str) -> str:
    """Return what was found as lines for a terminal."""
    sections = (
        ("asked and not served", trial.unserved),
        ("failed", trial.failed),
        ("read back otherwise than written", trial.differs),
        (f"new since {kept}", trial.new),
        (f"no longer asked since {kept}", trial.vanished),
    )
    lines = [f"wandb {version} against this server, beside the contract with {kept}"]
    for title, rows in sections:
        lines += [f"{title}: {'nothing' if not rows else ''}".rstrip()]
        lines += [f"  {row}" for row in rows]
    return "\n".join(lines)
