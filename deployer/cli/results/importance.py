"""`deployer importance`: which parameters matter for the metric."""

from __future__ import annotations

from deployer.analysis.importance import Importance, build_importance
from deployer.cli.output.render import Aside, Table, emit
from deployer.cli.results.ranking import check_ranked
from deployer.cli.results.results import MetricOption, choose_metric
from deployer.cli.shell.call import App, Call
from deployer.cli.shell.options import SweepArgument
from deployer.errors import ConfigError
from deployer.sweeps.rerun import get_whole_snapshot
from deployer.text import format_count

app = App()


@app.command()
def importance(
    call: Call,
    sweep: SweepArgument = None,
    metric: MetricOption = None,
) -> None:
    """Show how important each parameter is for the metric, as W&B's own panel does.

    The importance is that of a random forest, as a part of 1; the correlation is linear. Exits with
    3 if runs have finished but none logged the metric.
    """
    _, server, path = call.connect(sweep, reading=True)
    snapshot = get_whole_snapshot(server, path)
    found = choose_metric(snapshot, metric, None, needs_goal=False)
    if found.metric is None:
        raise ConfigError("--metric", "the sweep has no metric", "name one: --metric NAME")
    check_ranked(found)
    show_importance(build_importance(found.rows, found.metric), str(path), call.output)


def show_importance(found: Importance, sweep: str, output: str) -> None:
    """Put importance on stdout, the sentence last; what was left out on stderr."""
    rows = [
        [one.name, round(one.importance, 2), _round(one.correlation), one.runs]
        for one in found.parameters
    ]
    table = Table(("PARAMETER", "IMPORTANCE", "CORRELATION", "RUNS"), rows)
    sentence = found.sentence()
    plain = {"sweep": sweep, **vars(found), "sentence": sentence}
    emit(plain, output, table, *map(Aside, _list_notes(found)), sentence)


def _round(correlation: float | None) -> float | None:
    return None if correlation is None else round(correlation, 2) + 0.0  # no -0


def _list_notes(found: Importance) -> list[str]:
    """Return what was left out."""
    notes = []
    if found.stopped_early:
        notes.append(f"left out: {format_count(found.stopped_early, 'run')} stopped early")
    if found.left_out:
        runs = format_count(found.left_out, "run")
        notes.append(f"left out: {runs} not finished, or without a finite {found.metric}")
    if found.names:
        notes.append(f"left out: {', '.join(found.names)}, another text in every run")
    return notes
