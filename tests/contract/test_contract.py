"""The kept contracts: all that supported SDKs ask is served, and the SDKs still ask just that."""

from __future__ import annotations

import json
import sys
import tomllib
from difflib import unified_diff
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path

import pytest

from deployer.backend.graphql.schema import MISSING_FEATURES
from tests.contract.contract import (
    Contract,
    contract_path,
    kept_contracts,
    read_contract,
    write_contract,
)
from tests.contract.documents import join_document
from tests.contract.making import build_contract
from tests.contract.recording import ROOT, Exchange, Session, record
from tests.contract.sdks import python_with
from tests.contract.served import find_missing, is_explained, read_left_out, served_schema
from tests.contract.trying import compare, list_fields, refusals

CONTRACTS = kept_contracts()
OLDEST, NEWEST = CONTRACTS[0].wandb, CONTRACTS[-1].wandb
BY_VERSION = pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.wandb)


def test_the_oldest_a_middle_and_the_installed_sdk_are_kept() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bound = next(text for text in project["dependencies"] if text.startswith("wandb>="))
    assert (f"wandb>={OLDEST}", NEWEST) == (bound, version("wandb"))
    assert len(CONTRACTS) == 3


@BY_VERSION
def test_everything_that_is_asked_is_served(contract: Contract) -> None:
    missing = {
        f"{name}: {gap}"
        for name, questions in contract.graphql.items()
        for question in questions
        for gap in find_missing(join_document(question.document, contract.fragments))
    }
    assert missing == set()
    assert {row["status"][-1] for row in contract.http.values()} == {200}


@BY_VERSION
def test_what_is_left_out_is_explained(contract: Contract) -> None:
    assert [name for name in contract.unserved if not is_explained(name)] == []


def test_every_explanation_is_needed() -> None:
    asked = {name for contract in CONTRACTS for name in contract.unserved}
    for row in read_left_out():
        for pattern in row.operations:
            assert any(fnmatchcase(name, pattern) for name in asked), pattern
        for field in row.fields:
            kind, _, name = field.partition(".")
            assert name not in served_schema().type_map[kind].fields, field  # type: ignore[attr-defined]


@BY_VERSION
def test_a_contract_is_written_as_it_was_read(contract: Contract) -> None:
    text = contract_path(contract.wandb).read_text()
    assert write_contract(read_contract(text)) == text


def test_fields_and_arguments_of_a_document_are_told() -> None:
    document = "query Q { project(name: 1) { run(name: 2) @include(if: $a) { ...F } unheard } }"
    found = list_fields(document, {"F": "fragment F on Run { state }"})
    assert {"Query.project(name)", "Project.run", "Run.state", "Project.unheard"} <= found
    assert "Project.run(if)" not in found


def test_a_trial_tells_what_is_not_served_and_what_the_sdk_did(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "api.py").write_text("ASKED = 'query New { viewer { shoeSize } }'")
    (tmp_path / "bin" / "wandb-core").write_bytes(b"\0query Core { unheard { id } }error: {\0")
    message = 'Cannot query field "shoeSize" on type "User".'
    refusal = json.dumps({"errors": [{"message": message}], "data": None}).encode()
    sent = json.dumps({"query": "query New { viewer { shoeSize } }"}).encode()
    exchanges = (
        Exchange("init", "POST", "/graphql", sent, 400, refusal),
        Exchange("end", "POST", "/graphql", sent, 400, refusal),
        Exchange("end", "POST", "/telemetry/77", b"", 404, b""),
    )
    session = Session("1.0", tmp_path, exchanges, {"end": "KeyError: 'viewer'"}, {"steps": [1, 2]})
    trial = compare(session, build_contract(session), CONTRACTS[-1])
    assert trial.unserved == (
        "Core, in its source: Query.unheard",
        "New, in its source: User.shoeSize",
        f"New: 400 {message}; the step 'end' failed",
        f"New: 400 {message}; the step 'init' went on without",
        "POST /telemetry/ID: 404; the step 'end' failed",
    )
    assert trial.failed == ("end: KeyError: 'viewer'",)
    assert trial.new == ("New", "POST /telemetry/ID", "User.shoeSize")
    assert "Run.state" in trial.vanished
    assert not trial.passed


@pytest.mark.slow(seconds=115)
@pytest.mark.limit(600)
def test_the_installed_sdk_asks_what_its_contract_says() -> None:
    check_again(NEWEST, Path(sys.executable))


@pytest.mark.full
@pytest.mark.parametrize("wandb_version", [kept.wandb for kept in CONTRACTS[:-1]])
def test_an_older_sdk_asks_what_its_contract_says(wandb_version: str) -> None:
    check_again(wandb_version, python_with(wandb_version))


def check_again(wandb_version: str, python: Path) -> None:
    """Record anew: all must read back as it was written, and the contract be the kept one."""
    text = contract_path(wandb_version).read_text()
    kept = read_contract(text)
    session = record(python)
    assert list(refusals(session, kept)) == []
    assert {step: said for step, said in session.failed.items() if step not in kept.failed} == {}
    assert {name: said for name, said in session.differs.items() if name not in kept.differs} == {}
    found = write_contract(build_contract(session))
    changes = list(unified_diff(text.splitlines(), found.splitlines(), lineterm="", n=1))
    hint = f"if that is meant: python -m tests.contract record {wandb_version}"
    assert not changes, "\n".join([hint, *changes])


def test_what_is_refused_as_a_missing_feature_is_not_served() -> None:
    kinds = served_schema().type_map
    roots = {name for root in ("Query", "Mutation") for name in kinds[root].fields}  # type: ignore[attr-defined]
    for feature in MISSING_FEATURES:
        assert not feature.names & (roots | set(kinds)), feature.sentence
