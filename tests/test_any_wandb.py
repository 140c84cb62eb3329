"""`make test-wandb`: its words where nothing can be tested, and its report where it can."""

from __future__ import annotations

import pytest

from tests.any_wandb.__main__ import main
from tests.conftest import FOREIGN_KEY, ServedBackend

NOWHERE = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("url", "key", "error", "hint"),
    [
        ("", "", "no W&B server is named", "make test-wandb URL=https://api.wandb.ai"),
        ("api.wandb.ai", "", "is not the address of a W&B server", "make test-wandb URL=https://"),
        (NOWHERE, "", f"no key found for {NOWHERE}", f"wandb login --host {NOWHERE}, or export"),
        (NOWHERE, FOREIGN_KEY, f"{NOWHERE}: cannot be reached", "check that the server runs"),
    ],
)
def test_what_cannot_be_tested_is_said_in_a_line(
    url: str,
    key: str,
    error: str,
    hint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", key)
    assert main([url]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 2, told
    first, second = told.splitlines()
    assert first.startswith("error: ")
    assert error in first
    assert second.startswith(f"hint: {hint}")


def test_a_foreign_key(
    plain_backend: ServedBackend,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", FOREIGN_KEY)
    assert main([plain_backend.url]) == 2
    hint = capsys.readouterr().err.splitlines()[-1]
    assert hint == f"hint: the key came from WANDB_API_KEY; is it a key of {plain_backend.url}?"


@pytest.mark.full
@pytest.mark.slow(seconds=30)
def test_a_claim_is_shown_on_a_server_with_nothing_of_ours(
    plain_backend: ServedBackend,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", plain_backend.key)
    status = main([plain_backend.url, "-n", "0", "-k", "heal"])
    out = capsys.readouterr().out
    assert status == 0, out
    (held,) = [line for line in out.splitlines() if line.startswith("  held ")]
    assert held.endswith(
        "2/2 configurations finished, 0 duplicates, 0 lost, 1 healed, run again by deployer heal"
    )
    assert f"{plain_backend.url}/{plain_backend.entity}/deployer-test-" in out
    assert plain_backend.key not in out


@pytest.mark.slow
def test_no_test_is_no_success(
    plain_backend: ServedBackend,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", plain_backend.key)
    assert main([plain_backend.url, "-n", "0", "-k", "nothing"]) == 5
    assert "error: no test ran" in capsys.readouterr().err
