"""What trainers have done, step by step, and the step at which they are to wait."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil


@dataclass(frozen=True)
class Steps:
    """The trainers' side is in `trainers.py`: the files `trace.jsonl` and `hold`."""

    project: Path

    def hold_at(self, step: int | None) -> None:
        """Have every trainer wait at a step from now on, or at none."""
        file = self.project / "hold"
        if step is None:
            file.unlink(missing_ok=True)
            return
        draft = file.with_suffix(".new")
        draft.write_text(str(step))
        os.replace(draft, file)

    def find_waiting(self, step: int) -> list[psutil.Process]:
        """Return the living trainers whose last word is this step."""
        last = {line["process"]: line for line in self.read() if line["event"] != "child"}
        at_step = [number for number, line in last.items() if line["step"] == step]
        return [psutil.Process(number) for number in at_step if psutil.pid_exists(number)]

    def list_events(self, event: str) -> list[dict[str, Any]]:
        """Return the lines of one event: begin, step, end, child, failure, interrupted."""
        return [line for line in self.read() if line["event"] == event]

    def read(self) -> list[dict[str, Any]]:
        """Return every line, in the order in which they were written."""
        file = self.project / "trace.jsonl"
        whole = file.read_text().rpartition("\n")[0] if file.exists() else ""
        return [json.loads(line) for line in whole.splitlines()]

    def list_ghosts(self) -> list[dict[str, Any]]:
        """Return what children wrote of a run after another attempt of it had begun."""
        begins = self.list_events("begin")
        begun = {line["process"]: line["at"] for line in begins}
        return [
            child
            for child in self.list_events("child")
            for begin in begins
            if begin["run"] == child["run"]
            and begin["process"] != child["process"]
            and begun.get(child["process"], 0.0) < begin["at"] < child["at"]
        ]
