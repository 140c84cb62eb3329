"""`deployer sweep import` and `export`: a file of hyperparameter sets as a sweep, and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from deployer.cli.output.render import say, show, warn
from deployer.cli.results import Goal
from deployer.cli.shell.call import Call
from deployer.config.document import write_user_text
from deployer.errors import ConfigError
from deployer.sweeps.rerun import list_handed_out
from deployer.sweeps.set_files import (
    JSON,
    TABLES,
    YAML,
    build_sweep_config,
    dump_sets,
    is_wrapped,
    list_sets,
    load_sets,
)
from deployer.sweeps.sweep_file import dump_config, load_sweep, parse_sweep
from deployer.text import format_count
from deployer.wandb_api.operations import get_snapshot

USUAL_PROGRAM = "main.py"

ToOption = Annotated[
    Path | None,
    typer.Option("--to", "-o", metavar="PATH", help="The file to write; default: stdout."),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]


def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A list of sets (YAML, JSON or CSV).")
    ],
    to: ToOption = None,
    program: Annotated[
        str | None,
        typer.Option("--program", metavar="SCRIPT", help="The script; default: main.py."),
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="NAME", help="The metric that ranks the runs.")
    ] = None,
    goal: Annotated[Goal, typer.Option("--goal", help="minimize or maximize.")] = Goal.MINIMIZE,
    force: ForceOption = False,
) -> None:
    """Write a sweep file that runs exactly the hyperparameter sets of another file.

    JOB_ID holds the number of a run's set, from 1. If the sets are under `hyperparam_set`, the
    script reads the file itself; otherwise it gets flags. wandb.config has the values, too.
    """
    to = _check_to(to, file, YAML)
    found = load_sets(file)
    for warning in found.warnings:
        warn(warning)
    here = Path.cwd()
    if found.wrapped and file.resolve().parent != here.resolve():
        said = f"runs look for {file.name} in their working folder"
        warn(f"{said}: cp {file} . in the folder of deployer.yaml")
    if found.wrapped:
        say(f"runs get no flags: the script reads its set from {file.name} by JOB_ID (from 1)")
    if not metric:
        warn("the sweep has no metric: add --metric NAME, or metric: to its file")
    script = program or _find_program(here)
    text = dump_config(build_sweep_config(found, file.name, script, metric, goal.value))
    parse_sweep(text, str(file))  # reject an invalid sweep before writing it
    _write(text, to, force)
    if to:
        say(f"{format_count(len(found.sets), 'set')} in {to}: deployer up {to}")


def export(
    call: Call,
    sweep: Annotated[str, typer.Argument(metavar="SWEEP|FILE", help="A sweep, or a sweep file.")],
    to: ToOption = None,
    force: ForceOption = False,
) -> None:
    """Write the configurations of a sweep as a file of hyperparameter sets.

    The ending of the file's name sets the format: .yaml, .json, .csv or .tsv. For random and bayes,
    name the SWEEP, not its file: the sets are the configurations drawn so far.
    """
    to = _check_to(to, Path(sweep), (*YAML, *JSON, *TABLES))
    if Path(sweep).is_file() or Path(sweep).suffix in YAML:
        config = load_sweep(sweep).config
        sets = list_sets(config, sweep)
    else:
        sets, config = _read_sets(call, sweep)
    _write(dump_sets(sets, str(to or ""), is_wrapped(config)), to, force)
    if to:
        say(f"{format_count(len(sets), 'set')} in {to}")


def _read_sets(call: Call, sweep: str) -> tuple[list[dict[str, object]], dict[str, Any]]:
    """Return a grid's configurations, or those that another sweep has drawn; and the sweep's."""
    _, server, path = call.connect(sweep, reading=True)
    snapshot = get_snapshot(server.client, path)
    config = snapshot.sweep.config
    if snapshot.sweep.method == "grid":
        return list_sets(config, str(path)), config
    sets = list_handed_out(snapshot)
    if not sets:
        raise ConfigError(str(path), "the sweep has no configuration yet", f"deployer watch {path}")
    return sets, config


def _check_to(to: Path | None, source: Path, suffixes: Sequence[str]) -> Path | None:
    """Return the file to write, None for stdout; raise ConfigError for an invalid one."""
    if to is None or to == Path("-"):
        return None
    if to.suffix.lower() not in suffixes:
        said = f"{to} does not end in {', '.join(suffixes)}"
        raise ConfigError("--to", said, f"such as --to sets{suffixes[0]}")
    if to.exists() and source.exists() and to.samefile(source):
        raise ConfigError("--to", f"{to} is the input file", "name another one")
    return to


def _find_program(folder: Path) -> str:
    """Return main.py, or the only script of a folder; raise ConfigError if neither exists."""
    scripts = sorted(path.name for path in folder.glob("*.py"))
    if USUAL_PROGRAM in scripts:
        return USUAL_PROGRAM
    if len(scripts) == 1:
        return scripts[0]
    hint = f"--program with one of: {', '.join(scripts)}" if scripts else "write a script first"
    raise ConfigError("--program", f"{folder} has no {USUAL_PROGRAM}", hint)


def _write(text: str, to: Path | None, force: bool) -> None:
    """Write a file or stdout; only `force` replaces a file with other content."""
    if to is None:
        show(text.rstrip("\n"))
        return
    try:
        other = to.is_file() and to.read_bytes() != text.encode()
    except OSError:
        other = True
    if other and not force:
        raise ConfigError(str(to), "the file already exists", "--force overwrites it")
    write_user_text(to, text)
