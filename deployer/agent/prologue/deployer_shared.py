"""Notes which files of the project's folder a run writes, and tells which another run wrote, too.

Python names each file that it opens for writing or renames, and PyTorch's own writer is asked. Each
process of the run notes a path at once, so that it counts whichever of them ends the run.
"""

import os
import sys

TYPE_CHECKING = False  # typing's own costs more than all of this
if TYPE_CHECKING:
    from typing import Any, Dict, List, Set, Tuple

SHARED = "deployer_shared_files"  # in the summary of the later run: its JSON names runs by file
MOST_FILES, MOST_TOLD = 20000, 20
LEFT_OUT = {".git", "wandb", "__pycache__"}


def find_notes() -> str:
    """Return where the runs of a sweep note what they write, on this machine."""
    sweep = os.path.join(os.environ["DEPLOYER_OUTPUT_ROOT"], os.environ["WANDB_SWEEP_ID"])
    return os.path.join(sweep, f"written-{os.uname().nodename}.jsonl")


def attach() -> None:
    """Have this process note what it writes; nothing of that may make a run fail."""
    project, notes, run_id = os.getcwd(), find_notes(), os.environ["WANDB_RUN_ID"]
    state = os.path.dirname(os.environ["DEPLOYER_OUTPUT_ROOT"])
    seen: "Set[str]" = set()

    def note(path: str) -> None:
        name = os.path.relpath(path, project)
        parts = {*name.split(os.sep)}
        if parts & {os.pardir, *LEFT_OUT} or path.startswith(state + os.sep) or name in seen:
            return
        seen.add(name)
        import json

        handle = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, f"{json.dumps([run_id, project, name])}\n".encode())
        os.close(handle)

    def look(event: str, arguments: "Tuple[Any, ...]") -> None:
        try:  # as Python ends, the names of this module are gone
            if event not in ("open", "os.rename") or len(seen) >= MOST_FILES:
                return
            path = arguments[event == "os.rename"]
            if event == "os.rename" or (arguments[2] & os.O_ACCMODE and not isinstance(path, int)):
                note(os.path.realpath(os.fsdecode(path)))
        except Exception:
            return

    def ask_writer(module: "Any") -> None:
        begin = module._open_zipfile_writer_file.__init__

        def note_and_begin(self: "Any", name: "Any") -> None:
            look("os.rename", ("", name))
            begin(self, name)

        module._open_zipfile_writer_file.__init__ = note_and_begin

    sys.addaudithook(look)
    __import__("deployer_sdk").await_module("torch.serialization", ask_writer)


def tell(run: "Any") -> None:
    """Name in a run's summary the files that are there and that other runs have written, too."""
    import json

    writers: "Dict[Tuple[str, str], Set[str]]" = {}
    try:
        with open(find_notes(), encoding="utf-8") as file:
            for run_id, project, name in map(json.loads, file):
                writers.setdefault((project, name), set()).add(run_id)
    except FileNotFoundError:
        return
    shared: "Dict[str, List[str]]" = {}
    for (project, name), ids in writers.items():
        if {run.id} < ids and os.path.exists(os.path.join(project, name)):
            shared[name] = [run.id, *sorted(ids - {run.id})[:MOST_TOLD]]
    if shared:
        run.summary[SHARED] = json.dumps(dict([*shared.items()][:MOST_TOLD]))
