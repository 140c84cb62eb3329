"""A sweep that is not there, and one without agents: the same words from every command."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Project
from tests.cli.test_cli_errors import fail
from tests.conftest import ServedBackend


def test_a_missing_sweep(project: Project, backend: ServedBackend) -> None:
    path = f"{backend.entity}/none/nothere"
    lines = fail(project, "results", path, code=1, **backend.environment)
    assert lines == [
        f"error: {backend.url}: sweep {path} not found",
        "hint: deployer sweep list",
    ]


# One for each way in which a command finds its sweep, and the others.
FIVE = """
results
down
sweep pause
agents logs
agents logs --run r
"""
OTHERS = """
watch
heal
sweep show
sweep resume
sweep stop
sweep cancel
sweep export
sweep delete --yes
agents up
agents list
agents down
agents drain --agent a
agents scale 2
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "commands", [FIVE, pytest.param(OTHERS, marks=pytest.mark.full)], ids=["five", "others"]
)
def test_every_command_says_that_there_is_no_such_sweep(
    project: Project, backend: ServedBackend, commands: str
) -> None:
    project.write_grid()
    for words in commands.strip().splitlines():
        *_, error, hint = fail(project, *words.split(), "nothere", code=1, **backend.environment)
        said = f"no project of {backend.entity} has a sweep nothere"
        assert (words, error) == (words, f"error: {backend.url}: {said}")
        assert hint == "hint: deployer sweep list"
    project.run(*hint.removeprefix("hint: deployer ").split(), **backend.environment)


def test_a_sweep_without_agents_has_no_logs(project: Project, backend: ServedBackend) -> None:
    path = f"{backend.entity}/none/nothere"
    first, _ = fail(project, "agents", "logs", path, code=1, **backend.environment)
    assert first == f"error: {backend.url}: sweep {path} not found"
    project.write_grid()
    made = project.run("sweep", "create", "grid.yaml", **backend.environment).stdout.strip()
    assert fail(project, "agents", "logs", made, code=1, **backend.environment) == [
        f"error: {made} has no agents here, and `down` deletes their logs",
        f"hint: to see what a run sent to the server: deployer agents logs {made} --run RUN",
    ]
