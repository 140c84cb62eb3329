"""What a run printed last: bounded, and without secrets."""

from __future__ import annotations

from pathlib import Path

from deployer.agent.runs.run_ends import BYTES, LINES, RunOutput

AGENT = "2026-07-01 10:00:00,000 - wandb.wandb_agent - INFO - Running runs: ['a']"


def printed(*lines: str) -> RunOutput:
    output = RunOutput()
    for line in lines:
        output.add(line)
    return output


def test_the_last_lines_are_kept_and_the_agents_own_are_not() -> None:
    output = printed("before")
    output.begin()
    for number in range(2 * LINES):
        output.add(f"line {number}")
        output.add(AGENT)
        output.add("2026-07-01 10:00:00 - deployer - s-a1: runs start cold: an error")
    kept = output.read({}).splitlines()
    assert kept == [f"line {number}" for number in range(LINES, 2 * LINES)]


def test_long_lines_and_progress_bars_leave_room_for_the_last_words() -> None:
    output = printed(*["é" * 100_000] * LINES, " 1%\r 2%\r99%\r", "KeyError: 'DATA'")
    text = output.read({})
    assert len(text.encode()) <= BYTES
    assert text.endswith("\n99%\nKeyError: 'DATA'")


def test_secrets_are_hidden(tmp_path: Path) -> None:
    environment = {
        "WANDB_API_KEY": "0123456789abcdef",
        "HF_TOKEN": "hf_0123456789",
        "DEPLOYER_KEY_FILE": str(tmp_path),
        "TOKENIZER": "bert-base-uncased",
        "SHORT_KEY": "no",
    }
    said = f"0123456789abcdef hf_0123456789 {tmp_path} bert-base-uncased no"
    output = printed(said, "https://ada:pass@example.org/x")
    assert output.read(environment) == (
        f"[secret] [secret] {tmp_path} bert-base-uncased no\nhttps://[secret]@example.org/x"
    )
