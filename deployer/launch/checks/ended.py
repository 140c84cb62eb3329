"""Refuses to create, unasked, another sweep of a file whose last one has ended."""

from __future__ import annotations

from deployer.config.project import Project
from deployer.errors import ConfigError, SweepEnded
from deployer.launch.request import Request
from deployer.model import Sweep, SweepPath
from deployer.sweeps.creation import find_newest, find_rest, goes_on
from deployer.sweeps.endings import describe_attempt, find_last_words
from deployer.sweeps.rerun import get_whole_snapshot
from deployer.sweeps.results import Results, build_results
from deployer.sweeps.wording import describe_configuration
from deployer.wandb_api.server import Server
from deployer.watch.run_logs import get_run_tail

TAIL_LINES = 10  # of which the last that is not empty is shown


def check_not_ended(project: Project, server: Server, request: Request) -> None:
    """Say how the file's sweep has ended, and the ways to go on.

    Raises SweepEnded; ConfigError with the first error if failures stopped it.
    """
    if not request.continued:
        return
    asked = (server, request.sweep, project, request.file, request.draws)
    found = find_newest(*asked)
    if found is None and (rest := find_rest(*asked)):
        raise _build_rest_error(server, rest, str(request.file))
    if found is None or not found[1].ended:
        return
    path = found[1].path
    snapshot = get_whole_snapshot(server, path)
    results = build_results(snapshot.sweep, snapshot.runs)
    coverage, file = results.coverage, str(request.file)
    another = f"or create another sweep: deployer up {file} --new"
    if results.stop_reason:
        first = _describe_first(server, path, results)
        said = f"its sweep {path} was stopped, since {results.stop_reason}{first}"
        ways = f"fix the script, then run them again: deployer heal {path}; {another}"
        raise ConfigError(file, said, ways)
    if goes_on(request.sweep, found[1]):
        return
    whole = coverage.expected is None or coverage.complete
    first = (
        f"deployer results {path}"
        if whole
        else f"run the missing configurations: deployer heal {path}"
    )
    cap = found[1].config.get("run_cap")
    if cap and found[1].state == "FINISHED" and request.sweep.method != "grid":
        another = f"add runs to it: deployer up {file} --run-cap {2 * cap}; {another}"
    said = f"its sweep {path} is {found[1].state}: {coverage.sentence()}"
    if cap and request.sweep.run_cap and request.sweep.run_cap < cap:
        said += f", and its run_cap is {cap}"
    raise SweepEnded(file, said, f"{first}; {another}")


def _build_rest_error(server: Server, rest: Sweep, file: str) -> SweepEnded:
    """Return what to say of a file that `up --reuse` has run, or runs, in part."""
    snapshot = get_whole_snapshot(server, rest.path)
    coverage = build_results(snapshot.sweep, snapshot.runs).coverage
    said = f"{rest.path}, which --reuse made from it, is {rest.state}: {coverage.sentence()}"
    look = "results" if rest.ended else "watch"
    ways = (
        f"deployer {look} {rest.path}; or run everything in another sweep: deployer up {file} --new"
    )
    return SweepEnded(file, said, ways)


def _describe_first(server: Server, path: SweepPath, results: Results) -> str:
    if not results.failures:
        return ""
    first = min(results.failures, key=lambda row: row.started_at or 0.0)
    tail = get_run_tail(server, None, path, first, TAIL_LINES)
    last = find_last_words(tail)
    attempt = first.attempts[-1] if first.attempts else None
    how = describe_attempt(attempt.cause, attempt.exit_code) if attempt and attempt.cause else ""
    said = ": ".join(filter(None, (how, last)))
    return f"; the first, {first.run_id} ({describe_configuration(first)}): {said}"
