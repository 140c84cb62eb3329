"""`deployer report`: the figures of `results`, and files that are never written over by mistake."""

from __future__ import annotations

import json
import re

import pytest

from deployer.report.html_file import MARK
from tests.backend.client import Client
from tests.browser.sweeps import make_sweep
from tests.cli.conftest import Project
from tests.conftest import ServedBackend


@pytest.fixture
def client(backend: ServedBackend, request: pytest.FixtureRequest) -> Client:
    """A client in a project of the test's own."""
    return Client.of(backend, re.sub(r"\W+", "-", request.node.name))


def _words(client: Client, sweep: str) -> tuple[str, ...]:
    return (f"{client.entity}/{client.project}/{sweep}", "--wandb", client.url)


def test_markdown_has_the_figures_of_results(client: Client, project: Project) -> None:
    sweep = make_sweep(client, 8)
    words = _words(client, sweep)
    text = project.run("report", *words, WANDB_API_KEY=client.key).stdout
    shown = project.run("results", *words, "-o", "json", WANDB_API_KEY=client.key).stdout
    results = json.loads(shown)
    plain = text.replace("\\", "")
    assert results["coverage"]["sentence"] in plain
    best = results["best"]
    assert f"best: {best['run_id']} loss={best['value']:.6g} with " in plain
    table = [line.split(" | ") for line in plain.splitlines() if re.match(r"\| \d", line)]
    ranked = [run for run in results["runs"] if run["rank"]]
    assert [(row[0], row[1], row[2]) for row in table] == [
        (f"| {run['rank']}", run["run_id"], f"{run['value']:.6g}") for run in ranked
    ]
    assert all(run["run_id"] in plain for run in results["failures"])


def test_a_file_that_is_no_report_is_kept(client: Client, project: Project) -> None:
    sweep = make_sweep(client, 2)
    words = ("report", *_words(client, sweep))
    project.write("notes.md", "mine\n")
    refused = project.run(*words, "--to", "notes.md", code=2, WANDB_API_KEY=client.key)
    assert "the file exists and is not a report" in refused.stderr
    assert (project.folder / "notes.md").read_text() == "mine\n"
    project.run(*words, "--to", "notes.md", "--force", WANDB_API_KEY=client.key)
    project.run(*words, "--to", "notes.md", WANDB_API_KEY=client.key)
    project.run(*words, "--to", "a.html", WANDB_API_KEY=client.key)
    assert MARK in (project.folder / "notes.md").read_text()
    assert (project.folder / "a.html").read_text().startswith(f"<!doctype html>\n{MARK}\n")
    assert {path.name for path in project.folder.iterdir()} >= {"notes.md", "a.html"}
    assert not [path for path in project.folder.iterdir() if path.name.startswith(".notes")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "-"], "error: --to: - ends neither as a page nor as Markdown"),
        (["--to", "a.pdf"], "error: --to: a.pdf ends neither as a page nor as Markdown"),
        (["--to", "."], "error: --to: . ends neither as a page nor as Markdown"),
        (["--to", "no/where.md"], "error: no/where.md: folder no not found"),
        (["--to", "no/where.html"], "error: no/where.html: folder no not found"),
    ],
)
def test_where_no_report_can_be_written_is_said_before_a_server_is_asked(
    words: list[str], said: str, project: Project
) -> None:
    refused = project.run("report", "nobody/nothing/sweep0000", *words, code=2)
    assert refused.stderr.startswith(said)
    assert not list(project.folder.glob("*.html"))
