"""Decides the exit code of a supervisor; pure functions.

The agent's own exit code is almost meaningless: 0 both for a finished sweep and for one that it
gave up. An agent that the server tells to exit ends with 0, even if the server stopped the sweep
because its runs fail. That is the sweep's failure, which `up` reports by its own exit code.
"""

import re
from dataclasses import dataclass
from typing import Optional

FINISHED = 0
FAILED = 1
GAVE_UP = 3
UNSETTLED = 75  # EX_TEMPFAIL: its only run is reassigned
MISCONFIGURED = 78  # EX_CONFIG: a bad key or an unknown sweep; a retry is useless
STOPPED = 143  # a shell's code for a process that SIGTERM ended

SWEEP_ENDED = ("FINISHED", "CANCELED")

# Log lines of wandb/wandb_agent.py, the same from 0.22 to 0.31.
_GAVE_UP = re.compile(r"Detected \d+ (consecutive )?failed runs.*, shutting down\.")
_EXIT_COMMAND = re.compile(r"- INFO - Agent received command: exit\b")
_STOP_COMMAND = "- INFO - Agent received command: stop"
_DELETED = "Sweep was deleted or agent was not found."
_RUN_BEGINS = "- INFO - About to run command: "
_RUN_ENDED = re.compile(r"- INFO - Cleaning up finished run: (\S+)")


@dataclass(frozen=True)
class AgentExit:
    """An exit code and its reason in one line."""

    exit_code: int
    reason: str


class AgentLog:
    """State parsed from the agent's log lines; trainers write to the same log."""

    def __init__(self) -> None:
        self.told_to_exit = False
        self.told_to_stop_run = False
        self.sweep_deleted = False
        self.gave_up = ""
        self.busy = False
        self.runs_ended = 0
        self.last_run_id = ""

    def read_line(self, line: str) -> bool:
        """Parse one line; return True if a run begins or has ended with it."""
        if _RUN_BEGINS in line:
            self.busy = True
            self.told_to_stop_run = False
            return True
        ended = _RUN_ENDED.search(line)
        if ended:
            self.last_run_id = ended.group(1)
            self.busy = False
            self.runs_ended += 1
            return True
        self.told_to_exit |= bool(_EXIT_COMMAND.search(line))
        self.told_to_stop_run |= _STOP_COMMAND in line
        self.sweep_deleted |= _DELETED in line
        gave_up = _GAVE_UP.search(line)
        self.gave_up = gave_up.group(0) if gave_up else self.gave_up
        return False


def judge_ending(log: AgentLog, exit_status: int, sweep_state: Optional[str]) -> AgentExit:
    """Judge an agent that ended on its own.

    `exit_status` is negative for a signal; `sweep_state` is the server's, empty if the sweep is
    unknown, None if the server was not asked or did not answer.
    """
    if (exit_status == 0 or log.sweep_deleted) and sweep_state in SWEEP_ENDED:
        return AgentExit(FINISHED, f"the sweep is {sweep_state}")
    if exit_status == 0 and log.told_to_exit:
        return AgentExit(FINISHED, "the server had nothing left for this agent")
    if log.gave_up:
        return AgentExit(GAVE_UP, log.gave_up)
    if log.sweep_deleted and sweep_state == "":
        return AgentExit(MISCONFIGURED, "the sweep was deleted")
    if log.sweep_deleted:
        return AgentExit(FAILED, "the server denied the sweep or the agent, and then did not")
    if exit_status == 0:  # perhaps interrupted by hand: retry
        return AgentExit(FAILED, "the agent left although the sweep goes on")
    if exit_status < 0:
        return AgentExit(128 - exit_status, f"the agent died of signal {-exit_status}")
    return AgentExit(FAILED, f"the agent ended with exit code {exit_status}")
