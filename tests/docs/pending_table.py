"""The tables of docs/pending.md and docs/doctor.md, made of the rules and the rights in the code.

`python -m tests.docs.pending_table` writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from deployer.config.causes import Cause
from deployer.errors import Finding, Severity
from deployer.executors.kubernetes.diagnose import rules
from deployer.executors.kubernetes.diagnose.rights import (
    BRING_DATA,
    MAKE_BACKEND,
    RUN_AGENTS,
    WITHOUT,
    describe_right,
)
from deployer.executors.kubernetes.diagnose.rules import Rule

DOCS = Path(__file__).parents[2] / "docs"
BEGIN, END = "<!-- made from the code -->\n", "<!-- end -->"
NAME = re.compile(r"\$(\w+)")
# The headings, by the first cause below each.
SECTIONS = {
    Cause.NO_SUCH_GPU: "Nodes and clouds",
    Cause.QUOTA: "Rules of the server, and objects that the pod names",
    Cause.IMAGE: "Images",
    Cause.QUEUE_MISSING: "Queues, suspension and eviction",
    Cause.OTHER: "Everything else",
}
PASSES = {True: "with time", False: "never", None: "unknown"}


def list_rules() -> list[Rule]:
    """Return all rules in the order of their causes."""
    found = [one for one in vars(rules).values() if isinstance(one, Rule)]
    return sorted(found, key=lambda one: list(Cause).index(one.code))


def is_listed(found: Finding) -> bool:
    """Tell whether a finding is what a rule says; what is permanent may not be certain yet.

    The scheduler's words may stand before it, and an autoscaler's behind it.
    """
    fix = re.sub(r"kubectl --context \S+ ", "kubectl ", found.fix)
    return any(
        one.code == found.code
        and found.transient in (one.transient, None)
        and _matches(one.says, found.message, "(?:.*; )?", "(?:; .*)?")
        and _matches(one.fix, fix)
        for one in list_rules()
    )


def build_pages() -> dict[Path, str]:
    """Return both pages with their tables."""
    tables = {"pending.md": _list_causes(), "doctor.md": _list_rights()}
    return {DOCS / name: _insert(DOCS / name, lines) for name, lines in tables.items()}


def _insert(page: Path, lines: Iterator[str]) -> str:
    head, _, rest = page.read_text().partition(BEGIN)
    return "".join((head, BEGIN, *(f"{line}\n" for line in lines), END, rest.partition(END)[2]))


def _list_causes() -> Iterator[str]:
    for cause, found in groupby(list_rules(), key=lambda one: one.code):
        if cause in SECTIONS:
            yield f"\n### {SECTIONS[cause]}\n"
            yield "| cause | sentence | passes | what to do |\n|---|---|---|---|"
        for one in found:
            says, fix = (NAME.sub(lambda m: m[1].upper(), text) for text in (one.says, one.fix))
            yield f"| `{cause}` | {says} | {PASSES[one.transient]} | {fix} |".replace("  ", " ")


def _list_rights() -> Iterator[str]:
    yield "\n| you may not | | so |\n|---|---|---|"
    for purpose in (RUN_AGENTS, MAKE_BACKEND, BRING_DATA):
        named = ", ".join(f"`{describe_right(one)}`" for one in purpose.rights)
        sign = "✗" if purpose.severity is Severity.ERROR else "!"
        yield f"| {named} | {sign} | {purpose.without} |"
    for effect, found in groupby(
        sorted(WITHOUT.items(), key=lambda one: one[1]), lambda one: one[1]
    ):
        named = ", ".join(f"`{describe_right(one)}`" for one, _ in found)
        yield f"| {named} | ? | {effect} |"


def _matches(template: str, text: str, before: str = "", after: str = "") -> bool:
    parts = ".*".join(re.escape(part) for part in re.split(r"\$\w+", template))
    return re.fullmatch(f"{before}{parts}{after}", text, re.DOTALL) is not None


if __name__ == "__main__":
    for path, text in build_pages().items():
        path.write_text(text)
