"""Prints the scalars of TensorBoard's event files as JSON lines, until its stdin is closed.

The wrapper starts it with the trainer's Python, whose package tensorboard reads the files.
"""

import glob
import json
import os
import select
import sys
import types
from typing import Any, Dict, Iterable, Iterator, Set, Tuple

from .spec import TENSORBOARD_STEP

POLL_SECONDS = 1.0
NAMES = "*tfevents*"


def main(folder: str, known: Set[str]) -> None:
    """Print what event files below `folder` hold and get, but for the `known` ones.

    Raises ImportError without the package tensorboard.
    """
    # As tensorboard itself does without TensorFlow, whose import takes seconds.
    sys.modules["tensorboard.compat.notf"] = types.ModuleType("tensorboard.compat.notf")
    loader: Any = __import__(
        "tensorboard.backend.event_processing.event_file_loader", fromlist=["EventFileLoader"]
    )
    files: Dict[str, Any] = {}
    ended = False
    while not ended:
        ended = bool(select.select([0], [], [], POLL_SECONDS)[0])
        for path in sorted(list_event_files(folder) - known - set(files)):
            files[path] = loader.EventFileLoader(path)
        for path in sorted(files):
            for row in merge_rows(list_scalars(files[path].Load())):
                sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()


def list_event_files(folder: str) -> Set[str]:
    """Return the event files below a folder."""
    return set(glob.glob(os.path.join(glob.escape(folder), "**", NAMES), recursive=True))


def merge_rows(scalars: Iterable[Tuple[int, str, float]]) -> Iterator[Dict[str, float]]:
    """Join neighbours of one step, of which none has the name of another."""
    row: Dict[str, float] = {}
    for step, tag, value in scalars:
        if row and (row[TENSORBOARD_STEP] != step or tag in row):
            yield row
            row = {}
        row.update({TENSORBOARD_STEP: step, tag: value})
    if row:
        yield row


def list_scalars(events: Any) -> Iterator[Tuple[int, str, float]]:
    """Yield the step, the tag and the value of each scalar."""
    from tensorboard.util import tensor_util  # type: ignore[import-not-found,import-untyped,unused-ignore]

    for event in events:
        for value in event.summary.value:
            kind = value.WhichOneof("value")
            if kind == "simple_value":
                yield event.step, value.tag, value.simple_value
            elif kind == "tensor":
                array = tensor_util.make_ndarray(value.tensor)
                if array.size == 1 and array.dtype.kind in "fiu":
                    yield event.step, value.tag, array.item()
