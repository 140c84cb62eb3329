"""`deployer sweep`: check, create, list, show, pause, resume, stop, cancel, delete sweeps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from deployer.cli import sweep_files
from deployer.cli.output.render import Table, emit, say, warn
from deployer.cli.output.status import agent_to_plain, describe_agents
from deployer.cli.shell.call import (
    ALL_BUT_LOG,
    FORMAT,
    PLACE,
    SERVER,
    App,
    Call,
    check_can_ask,
    confirm,
)
from deployer.cli.shell.options import (
    FileArgument,
    NoCheckOption,
    RetriesOption,
    RunCapOption,
    SeedOption,
    SweepArgument,
)
from deployer.config.project import Project
from deployer.errors import DeployerError, ExitCode, Finding
from deployer.executors.registry import find_executor
from deployer.launch import control
from deployer.launch.control import steer
from deployer.launch.request import Session, SweepRequest
from deployer.launch.resolution import connect
from deployer.launch.scaling import drain_all, report_stopping_runs
from deployer.launch.script import check_file, check_script_first
from deployer.model import Agent, Sweep, SweepPath
from deployer.sweeps.creation import Draws, make_sweep
from deployer.sweeps.records import Records, SweepRecord
from deployer.sweeps.rerun import get_full_snapshot
from deployer.sweeps.results import build_results
from deployer.sweeps.sweep_file import load_sweep
from deployer.text import format_age, format_count
from deployer.wandb_api.model import Snapshot
from deployer.wandb_api.operations import list_projects, list_sweeps

FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="FILE", help="W&B sweep files (YAML).")
]


def check(
    call: Call,
    files: FilesArgument,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")] = False,
    run_cap: RunCapOption = None,
    no_check: NoCheckOption = False,
) -> None:
    """Report all errors and warnings about sweep files; contacts no server.

    Prints one line each: FILE:LINE:COLUMN: error|warning: PATH: what (hint). Exits with 2 if a
    file has errors. Like `up`, it finds scripts relative to the current folder and starts them to
    read their flags, so their import-time code runs.
    """
    project = call.read()
    findings: list[Finding] = []
    for file in files:
        checked = check_file(file, project, run_cap, ask=not no_check)
        findings += checked.findings
        if checked.not_checked:
            say(f"{file}: the script was not checked: {checked.not_checked}")
    call.emit([*map(finding_to_plain, findings)], *map(format_finding, findings))
    errors = sum(one.is_error for one in findings)
    said = f"{format_count(errors, 'error')}, {format_count(len(findings) - errors, 'warning')}"
    say(f"{format_count(len(files), 'file')}: {said}")
    if errors or (strict and findings):
        raise typer.Exit(ExitCode.WRONG_INPUT)


def finding_to_plain(found: Finding) -> dict[str, Any]:
    """Return a finding about a file with stable keys; the path is one text."""
    line, column = found.position
    return {
        "file": found.subject,
        "line": line,
        "column": column,
        "severity": found.severity,
        "path": found.key,
        "message": found.message,
        "hint": found.fix,
    }


def format_finding(found: Finding) -> str:
    """Return a finding in the format that editors parse; missing keys have line 1."""
    line, column = (max(1, number) for number in found.position)
    path = f"{found.key}: " if found.path else ""
    hint = f" ({found.fix})" if found.fix else ""
    return f"{found.subject}:{line}:{column}: {found.severity}: {path}{found.message}{hint}"


def pause(call: Call, sweep: SweepArgument = None) -> None:
    """Start no more runs: active runs finish, and agents wait until the sweep is resumed.

    Like `resume`, `stop` and `cancel`, asks first if other owners' agents work on the sweep.
    """
    show_state(call, _steer(call, sweep, "PAUSED").path, "PAUSED")


def resume(call: Call, sweep: SweepArgument = None) -> None:
    """Start runs again after a pause."""
    show_state(call, _steer(call, sweep, "RUNNING").path, "RUNNING")


def stop(call: Call, sweep: SweepArgument = None) -> None:
    """End the sweep: active runs finish, and no more runs start.

    Like `cancel`, asks first if the sweep was created elsewhere.
    """
    show_state(call, _steer(call, sweep, "FINISHED").path, "FINISHED")


def cancel(call: Call, sweep: SweepArgument = None) -> None:
    """End the sweep now: kill its active runs and end its agents."""
    session = _steer(call, sweep, "CANCELED")
    report_stopping_runs(session.server, session.path)
    try:
        drain_all(session.executor, session.path)
    except DeployerError as error:  # the agents leave by themselves
        warn(f"a watcher may start its agents again after `heal`: {error.message}")
    show_state(call, session.path, "CANCELED")


def open_session(call: Call, sweep: str | None) -> Session:
    """Connect to a sweep, and say which server has it."""
    config, server, path = call.connect(sweep)
    say(f"using {server.describe()}")
    return Session(config, find_executor(config), server, path)


def _steer(call: Call, sweep: str | None, state: str) -> Session:
    """Set a sweep's state; where that concerns other people, only if the user is sure."""

    def agree(concerns: Sequence[str], what: str) -> bool:
        for sentence in concerns:
            say(sentence)
        return call.is_sure(f"{what}?")

    session = open_session(call, sweep)
    if not steer(session, state, agree):
        raise typer.Exit
    return session


def show_state(call: Call, path: SweepPath, state: str) -> None:
    """Show a sweep's new state as JSON, if that is asked for."""
    call.emit({"sweep": str(path), "state": state})


app = App("Check, create, list and control sweeps.")
app.command(without=(*PLACE, *SERVER))(check)
app.command("import", without=ALL_BUT_LOG)(sweep_files.import_)
app.command("export", without=FORMAT)(sweep_files.export)


@app.command()
def create(
    call: Call,
    file: FileArgument,
    run_cap: RunCapOption = None,
    seed: SeedOption = None,
    retries: RetriesOption = None,
    no_check: NoCheckOption = False,
) -> None:
    """Create a sweep and print its path.

    The embedded backend runs where the agents will run (--on).
    """
    config = call.read()
    sweep = load_sweep(file, run_cap)
    for warning in sweep.warnings:
        warn(warning)
    request = SweepRequest(file, sweep, draws=Draws(seed, retries), check_script=not no_check)
    executor = find_executor(config)
    check_script_first(executor, request)
    server = connect(config, executor)
    say(f"using {server.describe()}")
    now, draws = time.time(), request.draws
    made = make_sweep(server, sweep, config, file=file, continued=False, draws=draws, now=now)
    for warning in made.warnings:
        warn(warning)
    page = server.sweep_url(made.path)
    for line in server.page_lines(made.path):
        say(line)
    call.emit({"sweep": str(made.path), "page": page}, str(made.path))


@app.command("list")
def list_(
    call: Call,
) -> None:
    """List sweeps, newest first: those of --project, or of all projects."""
    config = call.read()
    server = connect(config, reading=True)
    owner = config.entity_for(None, server.viewer.entity)
    chosen = config.project or config.file_project
    names = (chosen,) if chosen else list_projects(server.client, owner)
    found = [sweep for name in names for sweep in list_sweeps(server.client, owner, name)]
    found.sort(key=lambda sweep: sweep.created_at or 0.0, reverse=True)
    records = {one.sweep_path: one for one in Records.load() if one.is_on(server)}
    listed = [(info, records.get(str(info.path))) for info in found]
    table = Table(
        ("SWEEP", "STATE", "METHOD", "RUNS", "AGE", "FILE", "FOLDER", "TITLE"),
        [_list_row(info, record) for info, record in listed],
        empty=f"no sweeps of {owner}{f' in project {chosen}' if chosen else ''}\n"
        "hint: deployer up FILE",
    )
    call.emit([_list_plain(info, record) for info, record in listed], table)


def _list_plain(info: Sweep, record: SweepRecord | None) -> dict[str, object]:
    """Return a sweep for a list; its origin is known only for the user's own sweeps."""
    made = {"file": record and record.file, "folder": record and record.folder}
    return {**sweep_to_plain(info), **made}


def _list_row(info: Sweep, record: SweepRecord | None) -> tuple[object, ...]:
    age = None if info.created_at is None else max(0.0, time.time() - info.created_at)
    file, folder = (record.file, _shorten(record.folder)) if record else ("", "")
    state = (info.state, info.method, info.run_count)
    return (str(info.path), *state, format_age(age), file, folder, info.title)


def _shorten(folder: str) -> str:
    home = str(Path.home())
    return f"~{folder[len(home) :]}" if folder == home or folder.startswith(f"{home}/") else folder


@app.command("show")
def show_(
    call: Call,
    sweep: SweepArgument = None,
) -> None:
    """Show one sweep: its state, runs, agents and address."""
    config, server, path = call.connect(sweep, reading=True)
    snapshot = get_full_snapshot(server, path)
    show_sweep(snapshot, _list_agents(config, path), server.sweep_url(path), call.output)


def show_sweep(snapshot: Snapshot, agents: Sequence[Agent] | None, page: str, output: str) -> None:
    """Print one sweep on stdout: its settings, progress, agents, and page."""
    info = snapshot.sweep
    coverage = build_results(info, snapshot.runs).coverage
    known = None if agents is None else [agent_to_plain(agent) for agent in agents]
    plain = {"coverage": vars(coverage), "page": page, "config": info.config, "agents": known}
    lines = {
        "sweep": str(info.path),
        "title": info.title,
        "state": info.state,
        "method": info.method,
        "metric": f"{info.metric_goal} {info.metric_name}" if info.metric_name else "none",
        "coverage": coverage.sentence(),
        **({"agents": describe_agents(agents)} if agents is not None else {}),
        "results page": page,
    }
    said = (f"{name}: {value}" for name, value in lines.items())
    emit({**sweep_to_plain(info), **plain}, output, *said)


def sweep_to_plain(info: Sweep) -> dict[str, Any]:
    """Return a sweep with stable keys for `-o json`."""
    return {
        "sweep": str(info.path),
        "title": info.title,
        "state": info.state,
        "method": info.method,
        "metric": info.metric_name,
        "goal": info.metric_goal,
        "runs": info.run_count,
        "expected": info.expected,
        "created_at": info.created_at,
    }


def _list_agents(config: Project, path: SweepPath) -> Sequence[Agent] | None:
    """Return a sweep's agents; None, with a warning, if they cannot be listed."""
    try:
        return find_executor(config).list_agents(str(path))
    except DeployerError as error:
        warn(f"its agents could not be listed: {error.message}")
        return None


app.command()(pause)
app.command()(resume)
app.command()(stop)
app.command()(cancel)


@app.command()
def delete(
    call: Call,
    sweep: Annotated[
        str,
        typer.Argument(metavar="SWEEP", help="ENTITY/PROJECT/SWEEP_ID, a short id or an address."),
    ],
) -> None:
    """Delete a sweep permanently; its runs stay in the project.

    Also deletes the runs' outputs (DEPLOYER_OUTPUT_DIR) on this machine. Works only on the
    embedded backend; on W&B's own servers, use the sweep's page.
    """
    check_can_ask(call.yes)

    def agree(_: Sequence[str], what: str) -> bool:
        if call.yes:
            say(f"deleting {what}")
        return call.yes or confirm(f"delete {what}?")

    session = open_session(call, sweep)
    if control.delete(session, agree):
        show_state(call, session.path, "DELETED")
