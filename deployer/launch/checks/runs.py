"""What users must know of their runs before the start: their Python, and the folder of each."""

from __future__ import annotations

from collections.abc import Iterator

from deployer.agent.prologue.deployer_folder import look_at
from deployer.executors.base import Executor
from deployer.images.code_archive import list_files
from deployer.text import format_bytes, format_count

SHOWN = 8


def describe_runs(executor: Executor) -> Iterator[str]:
    """Yield what is so with an executor's runs; raises ConfigError if it is bad."""
    project = executor.project
    yield from executor.describe_runs()
    if not project.settings.isolate:
        return
    if not executor.has_folder:
        yield "isolate: each run gets a copy of the image's working folder"
        return
    folder = project.code.folder
    copied, linked = look_at(str(folder)) if executor.runs_here else (list_files(folder), [])
    sizes = [path.lstat().st_size for one in copied if not (path := folder / one).is_dir()]
    size = format_bytes(sum(sizes))
    yield f"isolate: each run gets a copy of {format_count(len(sizes), 'file')}, {size}"
    if linked:
        more = f" and {len(linked) - SHOWN} more" if len(linked) > SHOWN else ""
        yield f"isolate: linked, so shared by all runs: {', '.join(linked[:SHOWN])}{more}"
