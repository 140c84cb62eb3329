"""The whole table of Google's errors as a user reads them, and that no secret gets into it."""

from __future__ import annotations

import pytest
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.rpc import code_pb2

from deployer.gke.api.failures import CALLS, CONDITIONS, CloudCall, build_failure, translate_error
from tests.golden_files import check_golden

ATTEMPT = CloudCall(
    "cannot create cluster train in us-east1-b", "my-project", "us-east1-b", "train"
)
FAILED = CloudCall("creating cluster train failed", "my-project", "us-east1-b", "train")
TOKEN = "ya29.a0AfH6SMBx-verysecret_token"


def make(kind: type[BaseException]) -> BaseException:
    """Make an error that says nothing itself."""
    if issubclass(kind, api.RetryError):
        return kind("", cause=None)
    return kind("") if issubclass(kind, api.GoogleAPICallError) else kind()


def test_the_table_as_it_is_read() -> None:
    """Every class and every condition: who reads the golden reads what users are told."""
    lines = []
    for kind in CALLS:
        told = translate_error(make(kind), ATTEMPT)
        name = f"{kind.__module__}.{kind.__name__}".replace("builtins.", "")
        again = ", passing" if told.passing else ""
        lines += [f"{name} ({told.reason}{again})", f"  {told.message}", f"  hint: {told.hint}"]
    for name in CONDITIONS:
        told = build_failure(FAILED, 0, "", [(name, "Google's sentence.")])
        lines += [f"condition {name} ({told.reason})", f"  {told.message}", f"  hint: {told.hint}"]
    for name, code in code_pb2.Code.items():
        told = build_failure(FAILED, code, "Google's sentence.")
        lines += [f"operation's error {name} ({told.reason})", f"  hint: {told.hint}"]
    check_golden("gke_failures.txt", "\n".join(lines) + "\n")


def test_no_hint_has_a_gap() -> None:
    for kind in CALLS:
        told = translate_error(make(kind), CloudCall("cannot list clusters", ""))
        assert told.hint
        assert "{" not in told.hint


@pytest.mark.parametrize(
    "error",
    [
        auth.RefreshError(f"bad token {TOKEN}", {"access_token": TOKEN}),
        api.Unauthenticated(f"Authorization: Bearer {TOKEN}"),
        api.Unknown("-----BEGIN PRIVATE KEY-----\nverysecret\n-----END PRIVATE KEY-----\n"),
        api.Forbidden("signed eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ2ZXJ5c2VjcmV0In0.verysecret"),
        auth.MalformedError("private key -----BEGIN RSA PRIVATE KEY-----\nverysecret"),
    ],
)
def test_no_secret_is_told(error: Exception) -> None:
    told = translate_error(error, ATTEMPT)
    assert "verysecret" not in told.message + told.hint
    assert "[secret]" in told.message


def test_zones_beside_the_sentence_are_told() -> None:
    info = {"reason": "resource_availability", "metadata": {"zonesAvailable": "us-east1-c"}}
    error = api.ResourceExhausted("ZONE_RESOURCE_POOL_EXHAUSTED", error_info=info)
    told = translate_error(error, ATTEMPT)
    assert told.message.endswith("(zonesAvailable: us-east1-c)")
    assert told.reason == "GCE_STOCKOUT"


def test_capacity_counts_before_other_conditions() -> None:
    conditions = [("CA_EXPIRING", "soon"), ("GCE_STOCKOUT", "no room")]
    assert build_failure(FAILED, 0, "it failed", conditions).reason == "GCE_STOCKOUT"
