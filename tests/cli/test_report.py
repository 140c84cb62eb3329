"""`deployer report`: the figures of `results`, and files that are never written over by mistake."""

from __future__ import annotations

import json
import re

import pytest

from deployer.report.content import MARK
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


def test_it_has_the_figures_of_results(client: Client, project: Project) -> None:
    sweep = make_sweep(client, 8)
    words = _words(client, sweep)
    said = project.run("report", *words, WANDB_API_KEY=client.key).stderr
    file = f"report-{sweep}.html"
    assert said.endswith(f"report: {file}\n")
    shown = project.run("results", *words, "-o", "json", WANDB_API_KEY=client.key).stdout
    results = json.loads(shown)
    [text] = re.findall(r'id="documents">(.*?)</script>', (project.folder / file).read_text())
    [page] = json.loads(text)["pages"].values()
    assert page["coverage"] == results["coverage"]["sentence"]
    assert page["best"]["run"] == results["best"]["run_id"]
    failed = [run["run"] for run in page["report"]["failures"]]
    assert failed == [run["run_id"] for run in results["failures"]]


def test_a_file_that_is_no_report_is_kept(client: Client, project: Project) -> None:
    sweep = make_sweep(client, 2)
    words = ("report", *_words(client, sweep))
    project.write("notes.html", "mine\n")
    refused = project.run(*words, "--to", "notes.html", code=2, WANDB_API_KEY=client.key)
    assert "the file exists and is not a report" in refused.stderr
    assert (project.folder / "notes.html").read_text() == "mine\n"
    project.run(*words, "--to", "notes.html", "--force", WANDB_API_KEY=client.key)
    project.run(*words, "--to", "notes.html", WANDB_API_KEY=client.key)
    assert (project.folder / "notes.html").read_text().startswith(f"<!doctype html>\n{MARK}\n")
    assert not [path for path in project.folder.iterdir() if path.name.startswith(".notes")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "-"], "error: --to: - does not end in .html, and a report is a page"),
        (["--to", "a.pdf"], "error: --to: a.pdf does not end in .html, and a report is a page"),
        (["--to", "no/where.html"], "error: no/where.html: folder no not found"),
    ],
)
def test_where_no_report_can_be_written_is_said_before_a_server_is_asked(
    words: list[str], said: str, project: Project
) -> None:
    refused = project.run("report", "nobody/nothing/sweep0000", *words, code=2)
    assert refused.stderr.startswith(said)
    assert not list(project.folder.glob("*.html"))
