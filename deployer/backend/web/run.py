"""A run as its page shows it, read from the database and from the files that it sent."""

from __future__ import annotations

from deployer.backend.db.agents import Agent
from deployer.backend.db.attempts import list_attempts
from deployer.backend.db.files import File, list_run_files
from deployer.backend.db.lines import last_lines, read_rows
from deployer.backend.db.projects import Project
from deployer.backend.db.rows import Connection, find_all, get
from deployer.backend.db.runs import Run
from deployer.backend.db.sweeps import Sweep
from deployer.backend.storage.blob_folder import BlobFolder
from deployer.backend.web.artifacts import list_run_artifacts
from deployer.backend.web.results import run_info, stopped_early, sweep_title
from deployer.model import SweepPath
from deployer.page.run_document import RunSource
from deployer.sweeps.command_line import build_command_line
from deployer.wandb_api.model import parse_environment, parse_json

CONSOLE_LINES = 400
METADATA_FILE = "wandb-metadata.json"
PATCH_FILES = ("diff.patch", "code/diff.patch")
MOST_BYTES = 256 * 1024  # of a text file that is shown
MOST_EVENTS = 5000


def read_run(db: Connection, blobs: BlobFolder, project: Project, run: Run) -> RunSource:
    """Return what the document of a run is made of."""
    sweep = get(db, Sweep, run.sweep_id) if run.sweep_id else None
    agents = _agent_names(db, sweep)
    attempts = list_attempts(db, run)
    files = list_run_files(db, run.id)
    return RunSource(
        path=SweepPath(project.entity, project.name, sweep.name) if sweep else None,
        entity=project.entity,
        project=project.name,
        run=run_info(run, attempts, agents),
        sweep_title=sweep_title(sweep) if sweep else "",
        metric=sweep.metric_name if sweep else None,
        sweep_ended=bool(sweep and sweep.ended),
        history=read_rows(db, run.id),
        events=read_rows(db, run.id, "events")[-MOST_EVENTS:],
        console=[text for _, text in last_lines(db, run.id, "output", CONSOLE_LINES)],
        files=[{"name": file.name, "size_bytes": file.size_bytes} for file in files],
        artifacts=list_run_artifacts(db, run),
        environment=parse_environment(run.config) or parse_json(_read(blobs, files, METADATA_FILE)),
        outputs={row.number: row.output for row in attempts},
        command=build_command_line(sweep.settings, run.assigned_args) if sweep else None,
        host=run.host,
        stopped_early=bool(sweep and stopped_early(run, sweep)),
        patch=_read(blobs, files, *PATCH_FILES),
    )


def _agent_names(db: Connection, sweep: Sweep | None) -> dict[int, str]:
    if sweep is None:
        return {}
    return {agent.id: agent.name for agent in find_all(db, Agent, sweep_id=sweep.id)}


def _read(blobs: BlobFolder, files: list[File], *names: str) -> str:
    """Return the beginning of the first of some files that is there, as text."""
    for file in files:
        if file.name in names and file.blob_id is not None:
            with open(blobs.path(file.blob_id), "rb") as stream:
                return stream.read(MOST_BYTES).decode("utf-8", "replace")
    return ""
