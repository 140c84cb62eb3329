"""`deployer sweep import` and `export`: a file of hyperparameter sets as a sweep, and back."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from deployer.cli.output.render import say, show, warn
from deployer.cli.shell.call import Call
from deployer.errors import ConfigError
from deployer.sweeps.hyperparameter_sets import build_sweep_config, is_wrapped, list_sets
from deployer.sweeps.rerun import list_handed_out
from deployer.sweeps.set_files import JSON, TABLES, YAML, dump_sets, load_sets
from deployer.sweeps.sweep_file import dump_config, load_sweep, parse_sweep
from deployer.text import format_count
from deployer.wandb_api.operations import get_snapshot

USUAL_PROGRAM = "main.py"
STDOUT = Path("-")
FORMATS = ("yaml", "yml", "json", "csv", "tsv", "table")  # what `-o` means elsewhere


class Goal(StrEnum):
    """What is wanted of a metric."""

    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"


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
        say(f"runs get no flags: the script reads its set in {file.name}, by JOB_ID from 1")
    if not metric:
        warn("the sweep has no metric: add --metric NAME, or metric: to its file")
    script = program or _find_program(here)
    text = dump_config(build_sweep_config(found, file.name, script, metric, goal.value))
    parse_sweep(text, str(file))  # what cannot run is refused before it is written
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
    is_file = Path(sweep).is_file() or Path(sweep).suffix in YAML
    to = _check_to(to, Path(sweep) if is_file else None, (*YAML, *JSON, *TABLES))
    if is_file:
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


def _check_to(to: Path | None, source: Path | None, endings: Sequence[str]) -> Path | None:
    """Return the file to write; raises ConfigError for one that is read, or of another kind."""
    if to is None or to == STDOUT:
        return None
    if source and to.exists() and source.exists() and to.samefile(source):
        raise ConfigError("--to", f"{to} is the input file", "name another one")
    if str(to) in FORMATS:
        raise ConfigError("--to", f"'{to}' is not a file name", f"such as --to sets{endings[0]}")
    if to.suffix and to.suffix.lower() not in endings:
        said = f"{to} has the ending of another format"
        raise ConfigError("--to", said, f"use the ending {' or '.join(endings)}")
    return to


def _find_program(folder: Path) -> str:
    """Return the script that is meant: main.py, or the only one there is; raises ConfigError."""
    if (folder / USUAL_PROGRAM).is_file():
        return USUAL_PROGRAM
    scripts = sorted(path.name for path in folder.glob("*.py"))
    if len(scripts) == 1:
        return scripts[0]
    said = f"{folder} has no {USUAL_PROGRAM}"
    hint = f"--program with one of: {', '.join(scripts)}" if scripts else "write a script first"
    raise ConfigError("--program", said, hint)


def _write(text: str, to: Path | None, force: bool) -> None:
    """Write a file, never over another one unless that is wanted; to stdout without a name."""
    if to is None:
        show(text.rstrip("\n"))
        return
    try:
        if to.exists() and not force and to.read_text(encoding="utf-8") != text:
            raise ConfigError(str(to), "the file exists already", "--force overwrites it")
        to.write_text(text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", "") or "is not text"
        raise ConfigError(str(to), f"cannot be written: {said}", "name another file") from error
