"""A room for each test: a folder here, a project there; and the report, claim by claim."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.any_wandb.named import read_named
from tests.any_wandb.room import Room
from tests.cli.conftest import Project
from tests.faults import trainers

# Read before the fixture `home` takes all settings of W&B and of ours away.
NAMED = read_named()
collect_ignore_glob = [] if NAMED else ["test_*.py"]


@pytest.fixture
def room(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> Iterator[Room]:
    """Give a room whose agents and runs end with the test; its W&B project stays."""
    assert NAMED, "no server is named"
    server, stamp = NAMED
    claim = (request.function.__doc__ or "").strip().splitlines()[0].rstrip(".")
    method = request.node.callspec.id if hasattr(request.node, "callspec") else ""
    name = "-".join(["deployer-test", stamp, request.function.__name__.split("_")[1], method])
    room = Room(Project(tmp_path / "project"), server, name.strip("-"), record_property)
    record_property("claim", f"{method}, {claim[0].lower()}{claim[1:]}" if method else claim)
    record_property("project", f"{server.url}/{server.entity}/{room.name}")
    room.project.folder.mkdir()
    room.project.write("train.py", trainers.RESUMING)
    yield room
    room.clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say of each claim whether it held and what was counted, and what is left on the server."""
    stats = terminalreporter.stats
    lines, projects = [], []
    for word, outcomes in (("held", ["passed"]), ("NOT HELD", ["failed", "error"])):
        for report in [one for outcome in outcomes for one in stats.get(outcome, [])]:
            said = dict(getattr(report, "user_properties", ()))  # a failed import has none
            if "claim" in said:
                lines.append(f"  {word:9} {said['claim']}: {said.get('detail', 'see above')}")
                projects.append(f"  {said['project']}")
    if NAMED and lines:
        terminalreporter.section(f"{NAMED[0].url} as {NAMED[0].entity}")
        terminalreporter.write("\n".join([*sorted(lines, key=str.lstrip), ""]))
        terminalreporter.write_line("Left there, for you to look at and delete:")
        terminalreporter.write("\n".join([*sorted(set(projects)), ""]))
