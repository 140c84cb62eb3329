"""Refuses to create another sweep of a file whose last one the breaker stopped."""

from __future__ import annotations

from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.launch.request import Request
from deployer.sweeps.creation import find_newest
from deployer.sweeps.endings import describe_attempt
from deployer.sweeps.results import Results, build_results
from deployer.sweeps.wording import describe_configuration
from deployer.wandb_api.model import SweepPath
from deployer.wandb_api.operations import get_snapshot
from deployer.wandb_api.server import Server
from deployer.watch.run_logs import get_run_tail

TAIL_LINES = 10  # of which the last that is not empty is shown


def check_not_stopped(project: Project, server: Server, request: Request) -> None:
    """Name the first error and the two ways to go on; raises ConfigError."""
    if not (request.continued and server.extended):
        return
    found = find_newest(server, request.sweep, project, request.file, request.draws)
    if found is None or not found[1].ended:
        return
    path = found[1].path
    snapshot = get_snapshot(server.client, path)
    results = build_results(snapshot.sweep, snapshot.runs)
    if not results.stop_reason:
        return
    first = _describe_first(server, path, results)
    raise ConfigError(
        str(request.file),
        f"its sweep {path} was stopped, since {results.stop_reason}{first}",
        f"fix the script, then run them again: deployer heal {path}; "
        f"or create another sweep: deployer up {request.file} --new",
    )


def _describe_first(server: Server, path: SweepPath, results: Results) -> str:
    if not results.failures:
        return ""
    first = min(results.failures, key=lambda row: row.started_at or 0.0)
    tail = get_run_tail(server, None, path, first, TAIL_LINES)
    last = next((line.strip() for line in reversed(tail) if line.strip()), "")
    attempt = first.attempts[-1] if first.attempts else None
    how = describe_attempt(attempt.cause, attempt.exit_code) if attempt and attempt.cause else ""
    said = ": ".join(filter(None, (how, last)))
    return f"; the first, {first.run_id} ({describe_configuration(first)}): {said}"
