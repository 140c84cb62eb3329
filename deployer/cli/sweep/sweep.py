"""`deployer sweep`: create, list, show and delete sweeps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

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
from deployer.cli.sweep import sweep_check, sweep_control, sweep_files
from deployer.config.project import Project
from deployer.errors import DeployerError
from deployer.executors.registry import find_executor
from deployer.launch import control
from deployer.launch.request import Request
from deployer.launch.resolution import connect
from deployer.launch.script import check_script_first
from deployer.model import Agent, Sweep, SweepPath
from deployer.sweeps.creation import Draws, make_sweep
from deployer.sweeps.records import Records, SweepRecord
from deployer.sweeps.rerun import get_whole_snapshot
from deployer.sweeps.results import build_results
from deployer.sweeps.sweep_file import load_sweep
from deployer.text import format_age
from deployer.wandb_api.model import Snapshot
from deployer.wandb_api.operations import list_projects, list_sweeps

app = App("Check, create, list and control sweeps.")
app.command(without=(*PLACE, *SERVER))(sweep_check.check)
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
    request = Request(file, sweep, draws=Draws(seed, retries), check_script=not no_check)
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
    """Return a sweep of a list; where it was made is known of this user's own ones."""
    made = {"file": record and record.file, "folder": record and record.folder}
    return {**sweep_to_plain(info), **made}


def _list_row(info: Sweep, record: SweepRecord | None) -> tuple[object, ...]:
    age = None if info.created_at is None else max(0.0, time.time() - info.created_at)
    file, folder = (record.file, _shorten(record.folder)) if record else ("", "")
    state = (info.state, info.method, info.run_count)
    return (str(info.path), *state, format_age(age), file, folder, info.title)


def _shorten(folder: str) -> str:
    """Return a folder as a shell shows it, with `~` for the user's own."""
    home = str(Path.home())
    return f"~{folder[len(home) :]}" if folder == home or folder.startswith(f"{home}/") else folder


@app.command("show")
def show_(
    call: Call,
    sweep: SweepArgument = None,
) -> None:
    """Show one sweep: its state, runs, agents and address."""
    config, server, path = call.connect(sweep, reading=True)
    snapshot = get_whole_snapshot(server, path)
    show_sweep(snapshot, _list_agents(config, path), server.sweep_url(path), call.output)


def show_sweep(snapshot: Snapshot, agents: Sequence[Agent] | None, page: str, output: str) -> None:
    """Put one sweep on stdout: what it is, how far it is, who works on it, where its page is."""
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
    """Return a sweep's agents; None, and a warning, where they cannot be asked for."""
    try:
        return find_executor(config).list_agents(str(path))
    except DeployerError as error:
        warn(f"its agents are not known: {error.message}")
        return None


app.command()(sweep_control.pause)
app.command()(sweep_control.resume)
app.command()(sweep_control.stop)
app.command()(sweep_control.cancel)


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

    session = sweep_control.open_session(call, sweep)
    if control.delete(session, agree):
        sweep_control.show_state(call, session.path, "DELETED")
