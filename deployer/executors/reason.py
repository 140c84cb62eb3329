"""Why an agent has not started: the cause, a sentence, a remedy, and whether it passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from deployer.config.causes import Cause as Cause  # whoever gives reasons has it from here
from deployer.findings import Finding


class Passes(StrEnum):
    """Whether a reason goes away by itself."""

    WITH_TIME = "with-time"
    NEVER = "never"
    UNKNOWN = "unknown"


WORDS = {Passes.WITH_TIME: " (passes with time)", Passes.NEVER: " (never passes)"}
TRANSIENT = {Passes.WITH_TIME: True, Passes.NEVER: False, Passes.UNKNOWN: None}
# The cloud has no node to give now: another kind of node may be had.
NO_NODE = (Cause.STOCKOUT, Cause.CLOUD_QUOTA)
EDIT = "in deployer.yaml"


@dataclass(frozen=True)
class Reason:
    """Why a pod does not run. `remedy` is a command or an edit; empty where only waiting helps."""

    cause: Cause
    sentence: str
    passes: Passes = Passes.UNKNOWN
    remedy: str = ""

    @property
    def line(self) -> str:
        """Return it all in one line."""
        mend = f": {self.remedy}" if self.remedy else ""
        return f"{self.sentence}{WORDS.get(self.passes, '')}{mend}"

    @property
    def hopeless(self) -> bool:
        """Tell whether no waiting mends it."""
        return self.passes is Passes.NEVER

    def finding(self) -> Finding:
        """Return it as an agent has it, wherever it runs."""
        transient = TRANSIENT[self.passes]
        return Finding(self.cause, "", self.sentence, self.remedy, transient=transient)


def edit(section: str, setting: str) -> str:
    """Return the remedy that is an edit of deployer.yaml."""
    return f"{section}: {{{setting}}} {EDIT}"


def add_hint(reason: Reason, hints: Mapping[Cause, str]) -> Reason:
    """Return a reason whose remedy ends with what a site asks its users to do about its cause."""
    hint = hints.get(reason.cause)
    if hint is None:
        return reason
    return replace(reason, remedy="; ".join(filter(None, (reason.remedy, hint))))
