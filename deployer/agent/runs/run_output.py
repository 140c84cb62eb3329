"""What the run of an agent printed last, without secrets: all of a run that dies early."""

import os
import re
from collections import deque
from typing import Deque, Mapping

LINES = 50
BYTES = 8192
LINE_CHARACTERS = 1000  # a progress bar without line ends must not push out all the rest
AGENT_LOGGER = " - wandb.wandb_agent - "
OWN_LOGGER = " - deployer - "  # of the supervisor
# Names of variables whose values nobody should read, and how long one is at least that is no word.
SECRET_NAMES = re.compile("(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)(_|$)", re.IGNORECASE)
SECRET_CHARACTERS = 8
# `scheme://user:password@host`
LOGIN = re.compile(r"(?<=://)[^/\s@]+(?=@)")
HIDDEN = "[secret]"


class RunOutput:
    """The last lines of the present run; its agent's own are left out."""

    def __init__(self) -> None:
        self._lines: Deque[str] = deque(maxlen=LINES)

    def begin(self) -> None:
        """Forget the run before."""
        self._lines.clear()

    def add(self, line: str) -> None:
        """Take note of one line of the log."""
        if AGENT_LOGGER not in line and OWN_LOGGER not in line:
            # Of a progress bar, what stood there last.
            self._lines.append(line.rstrip("\r").rpartition("\r")[2][:LINE_CHARACTERS])

    def read(self, environment: Mapping[str, str]) -> str:
        """Return it without the values of the environment's secrets."""
        text = hide_secrets("\n".join(self._lines).strip("\n"), environment)
        encoded = text.encode(errors="replace")
        return encoded[-BYTES:].decode(errors="ignore")


def hide_secrets(text: str, environment: Mapping[str, str]) -> str:
    """Return a text in which the values of secret variables and log-ins in addresses are hidden."""
    secrets = [
        value
        for name, value in environment.items()
        if SECRET_NAMES.search(name)
        and len(value) >= SECRET_CHARACTERS
        and not os.path.exists(value)
    ]
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return LOGIN.sub(HIDDEN, text)
