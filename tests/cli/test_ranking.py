"""`deployer results` by another metric, by histories, and in groups; and how a ranking looks."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console
from rich.text import Text

from deployer.analysis.repeats import group_repeats
from deployer.cli.ranking import (
    RankingView,
    build_groups,
    build_ranking,
    build_runs_csv,
    build_summary_lines,
    groups_to_plain,
    results_to_plain,
)
from deployer.model import Run, Sweep, SweepPath
from deployer.sweeps.results import build_results
from tests.backend.client import Client as Sdk
from tests.backend.client import grid
from tests.cli.conftest import Project
from tests.conftest import ServedBackend

CONFIG = {
    "method": "grid",
    "metric": {"name": "loss"},
    "parameters": {"lr": {"values": [1, 2]}, "seed": {"values": [1, 2]}},
}
SWEEP = Sweep(SweepPath("e", "p", "s"), "n", "t", "FINISHED", CONFIG, 4, 4, None)
RUNS = [
    Run(f"r{lr}{seed}", "t", "finished", {"lr": lr, "seed": seed}, {"loss": loss}, 0, 1.0, 2.0)
    for lr, seed, loss in [(1, 1, 0.1), (1, 2, 0.3), (2, 1, 0.8), (2, 2, 0.9)]
]
RESULTS = build_results(SWEEP, RUNS)
GROUPED = RankingView(grouped=True)


def test_a_terminal_gets_states_in_colours_and_none_with_no_color() -> None:
    drawn = draw(_environ={"TERM": "xterm-256color"})
    assert "\x1b[32mfinished\x1b[0m" in drawn
    plain = draw(_environ={"TERM": "xterm-256color", "NO_COLOR": "1"})
    assert "\x1b[3" not in plain
    assert "finished" in plain


def draw(**options: object) -> str:
    """Return the ranking as a terminal gets it."""
    ranking = build_ranking(RESULTS, "table", RankingView())
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=100, **options)  # type: ignore[arg-type]
    for line in ranking.lay_out(console.width):
        console.print(Text.assemble(*line))
    return file.getvalue()


def test_a_ranking_has_its_columns() -> None:
    table = build_ranking(RESULTS, "table", RankingView())
    assert table.columns == ["RANK", "RUN", "STATE", "loss", "lr", "seed", "TIME"]
    assert all(len(row) == len(table.columns) for row in table.rows)
    named = build_ranking(RESULTS, "table", RankingView(by="mean:3"))
    assert named.columns[3] == "loss (mean:3)"


def test_a_table_for_programs_has_no_secrets() -> None:
    config = {**CONFIG, "parameters": {"api_key": {"values": ["hunter1", "hunter2"]}}}
    runs = [replace(run, config={"api_key": f"hunter{n % 2 + 1}"}) for n, run in enumerate(RUNS)]
    results = build_results(replace(SWEEP, config=config), runs)
    table = build_runs_csv(results.rows, "loss")
    assert table.columns[-2:] == ["api_key", "summary.loss"]
    for found in (
        table.rows,
        results_to_plain(results),
        results_to_plain(results, RankingView(grouped=True)),
    ):
        assert "hunter" not in str(found)
        assert "REDACTED" in str(found)
    assert len(results_to_plain(results, RankingView(grouped=True))["groups"]) == 2


def test_each_column_has_a_name_of_its_own() -> None:
    values = dict.fromkeys(("rank", "title", "run_ids", "RANK", "time", "loss", "config.rank"), 1)
    config = {**CONFIG, "parameters": {name: {"values": [1, 2]} for name in values}}
    runs = [replace(run, config=dict.fromkeys(values, n)) for n, run in enumerate(RUNS)]
    results = build_results(replace(SWEEP, config=config), runs)
    for output, view in (
        ("csv", RankingView()),
        ("table", RankingView()),
        ("csv", GROUPED),
        ("table", GROUPED),
    ):
        columns = build_ranking(results, output, view).columns
        assert len({*columns}) == len(columns)
    columns = build_runs_csv(results.rows, "loss").columns
    assert columns[7:11] == ["loss", "config.rank", "config.title", "run_ids"]
    assert columns[-3:] == ["config.loss", "config.config.rank", "summary.loss"]
    named_so = build_runs_csv(results.rows, "state").columns
    assert len({*named_so}) == len(named_so)


def test_what_the_means_leave_out_is_said() -> None:
    rows = tuple(replace(row, copy_of="r" * (n == 1)) for n, row in enumerate(RESULTS.rows))
    results = replace(RESULTS, rows=rows, coverage=replace(RESULTS.coverage, stopped_early=2))
    said = "left out of the means: 2 runs stopped early, 1 run with the curve of a repeat"
    assert said in build_summary_lines(results, "page", GROUPED)
    assert said not in build_summary_lines(results, "page")
    assert not [x for x in build_summary_lines(RESULTS, "page", GROUPED) if x.startswith("left")]


def test_groups_have_mean_spread_and_count(capsys: pytest.CaptureFixture[str]) -> None:
    found = group_repeats(RESULTS.rows, "minimize")
    table = build_groups(found.groups, "loss", ["lr"])
    assert table.columns == ["RANK", "RUNS", "loss", "±", "lr"]
    assert [row[:3] for row in table.rows] == [[1, "2", 0.2], [2, "2", pytest.approx(0.85)]]
    plain = groups_to_plain(RESULTS)
    assert [group["count"] for group in plain["groups"]] == [2, 2]
    assert capsys.readouterr().err == ""


@pytest.fixture
def path(project: Project, backend: ServedBackend) -> str:
    """Give a sweep of four runs, two repeats of two configurations, with histories."""
    del project
    sdk = Sdk.of(backend, "ranking")
    metric = {"name": "loss", "goal": "minimize"}
    sweep = sdk.create_sweep({**grid(lr=[1, 2], seed=[1, 2]), "metric": metric})
    agent = sdk.create_agent(sweep)
    for _ in range(4):
        (command,) = sdk.heartbeat(agent)
        lr, seed = (command["args"][name]["value"] for name in ("lr", "seed"))
        values = [5.0 - lr, "NaN", lr + seed / 1000]
        rows = [{"_step": n, "loss": v, "acc": lr} for n, v in enumerate(values)]
        sdk.init_run(command["run_id"], config=json.dumps(command["args"]))
        sdk.log(command["run_id"], rows)
        sdk.finish(command["run_id"])
    return f"{sdk.entity}/ranking/{sweep}"


def test_results_by_history_metric_and_group(
    project: Project, backend: ServedBackend, path: str
) -> None:
    def ask(*words: str, code: int = 0) -> dict[str, object]:
        words = ("results", path, *words, "-o", "json")
        found: dict[str, object] = json.loads(
            project.run(*words, code=code, **backend.environment).stdout
        )
        return found

    def list_first(found: dict[str, object]) -> tuple[object, object]:
        best = found["best"]
        assert isinstance(best, dict)
        return best["parameters"]["lr"], best["value"]

    assert list_first(ask()) == (1, 1.001)
    assert list_first(ask("--by", "last")) == (1, 1.001)
    assert list_first(ask("--by", "best", "--goal", "maximize")) == (1, 4.0)
    accuracy = ask("--metric", "acc", "--goal", "maximize", "--by", "mean:2")
    assert (accuracy["metric"], accuracy["by"], list_first(accuracy)) == ("acc", "mean:2", (2, 2.0))
    assert ask("--by", "mean:3", code=3)["best"] is None  # one of three is NaN
    grouped = project.run("results", path, "--group", **backend.environment).stdout
    assert grouped.splitlines()[1].split()[:2] == ["1", "2"]


def test_what_cannot_be_ranked_is_refused(
    project: Project, backend: ServedBackend, path: str
) -> None:
    for words, said in (
        (
            ("--metric", "acc"),
            "error: --metric: acc is not the sweep's metric, so it needs a goal",
        ),
        (
            ("--by", "first"),
            "error: Invalid value for '--by': 'first' is none of last, best and mean:K",
        ),
        (("--verify", "--group"), "error: --verify: recounts steps; it does not rank runs"),
    ):
        done = project.run("results", path, *words, code=2, **backend.environment)
        assert done.stderr.splitlines()[0] == said
    words = ("--metric", "accu", "--goal", "maximize")
    done = project.run("results", path, *words, code=3, **backend.environment)
    assert "no finished run logged accu: the first of them logged loss, acc" in done.stderr


@pytest.mark.parametrize("columns", [80, 130])
def test_a_terminal_gets_as_many_parameters_as_it_has_room_for(
    project: Project, backend: ServedBackend, columns: int
) -> None:
    sdk = Sdk.of(backend, f"wide-{columns}")
    parameters = {f"parameter_{n}": {"value": n} for n in range(30)}
    parameters |= {f"varying_{n}": {"min": 0.0, "max": 1.0} for n in range(30)}
    config = {"method": "random", "parameters": parameters, "metric": {"name": "loss"}}
    sweep = sdk.create_sweep(config)
    agent = sdk.create_agent(sweep)
    for _ in range(2):
        (command,) = sdk.heartbeat(agent)
        sdk.init_run(command["run_id"], config=json.dumps(command["args"]))
        sdk.log(command["run_id"], [{"_step": 0, "loss": 1.0}])
        sdk.finish(command["run_id"])
    path = f"{sdk.entity}/wide-{columns}/{sweep}"
    drawn = project.draw(columns, "results", path, **backend.environment)
    table, below = drawn.split("2 configurations", 1)
    assert max(map(len, table.splitlines())) <= columns
    shown = table.count("varying_")
    assert 0 < shown < 30
    assert f"{shown} of 30 parameters have a column; -o csv gives all" in table
    assert "and 10 more" in below
