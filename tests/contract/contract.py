"""The contract with one SDK version, and its file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.contract.shapes import Shape

FOLDER = Path(__file__).parent
HEADER = """\
# What wandb {version} asks of the server, recorded from a session of a user: do not edit, run
# `python -m tests.contract record {version}`. `failed`: steps that this SDK cannot do; `differs`:
# what reads back otherwise; `unserved`: operations in its source, see left_out.yaml.
# `variables`: those whose type does not say what is in them; `refused`: answered so at least once;
# `empty`: selected, and always null.
"""


@dataclass(frozen=True)
class Question:
    """A GraphQL document and what was seen of its variables and answers."""

    document: str
    variables: Mapping[str, Shape]
    refused: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()


@dataclass(frozen=True)
class Contract:
    """All that one version asks.

    `failed` are the steps of the session that this SDK cannot do, by their errors; `differs` is
    what reads back otherwise than it was written; `unserved` are the operations in the SDK's source
    that the server does not have.
    """

    wandb: str
    failed: Mapping[str, str]
    differs: tuple[str, ...]
    unserved: tuple[str, ...]
    graphql: Mapping[str, tuple[Question, ...]]
    fragments: Mapping[str, str]
    http: Mapping[str, Mapping[str, Any]]


class _InLine(dict[str, Any]):
    """A mapping that is written in a line."""


class _Readable(yaml.SafeDumper):
    """Documents as blocks of lines."""


_Readable.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if text.endswith("}") else None
    ),
)
_Readable.add_representer(
    _InLine,
    lambda dumper, row: dumper.represent_mapping(
        "tag:yaml.org,2002:map", row.items(), flow_style=True
    ),
)


def write_contract(contract: Contract) -> str:
    """Return a contract as the text of its file."""
    content = {
        "wandb": contract.wandb,
        "failed": dict(contract.failed),
        "differs": list(contract.differs),
        "unserved": list(contract.unserved),
        "graphql": {
            name: [_without_nothing(vars(question)) for question in questions]
            for name, questions in contract.graphql.items()
        },
        "fragments": dict(sorted(contract.fragments.items())),
        "http": {place: _without_nothing(row) for place, row in contract.http.items()},
    }
    text = yaml.dump(
        content,
        Dumper=_Readable,
        sort_keys=False,
        default_flow_style=None,
        width=98,
        allow_unicode=True,
    )
    return HEADER.format(version=contract.wandb) + text


def _without_nothing(row: Mapping[str, Any]) -> dict[str, Any]:
    listed = {key: list(value) if isinstance(value, tuple) else value for key, value in row.items()}
    return {
        key: _InLine(value) if isinstance(value, dict) else value
        for key, value in listed.items()
        if value not in ([], {}, "null")
    }


def read_contract(text: str) -> Contract:
    """Read a contract's file."""
    content = yaml.load(text, Loader=yaml.CSafeLoader)
    graphql = {
        name: tuple(
            Question(
                row["document"],
                row.get("variables", {}),
                tuple(row.get("refused", ())),
                tuple(row.get("empty", ())),
            )
            for row in rows
        )
        for name, rows in content["graphql"].items()
    }
    return Contract(
        content["wandb"],
        content["failed"],
        tuple(content["differs"]),
        tuple(content["unserved"]),
        graphql,
        content["fragments"],
        content["http"],
    )


def contract_path(version: str) -> Path:
    """Return where the contract of a version is kept."""
    return FOLDER / f"sdk-{version}.yaml"


def kept_contracts() -> list[Contract]:
    """Read all that are kept, oldest version first."""
    found = [read_contract(path.read_text()) for path in FOLDER.glob("sdk-*.yaml")]
    return sorted(found, key=lambda contract: version_key(contract.wandb))


def version_key(version: str) -> tuple[int, ...]:
    """Return a version as numbers that can be compared."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
