"""Sources of a run's metrics beside its output: a file that grows, TensorBoard's event files."""

import hashlib
import json
import os
import subprocess
import sys
from typing import IO, Iterator, Mapping, Optional, Tuple

from .lines import CsvLines, LineSplitter, Row, read_object
from .spec import CSV, Spec
from .tensorboard_events import list_event_files

FIRST_LINE_BYTES = 8192
END_SECONDS = 60.0


class GrowingFile:
    """Reads the rows of a CSV file or of JSON lines as they are written.

    What the file held before the run began is not the run's, unless `own` says so; a script may
    append to it or write it from its beginning. One that is written again while the run goes on, as
    some loggers do for a new column, is read again behind the rows that are known.
    """

    def __init__(self, spec: Spec, path: str, own: bool) -> None:
        self._spec, self._path = spec, path
        self._before = (0, "") if own else self._digest(None)
        self._identity: Tuple[int, bytes] = (0, b"")
        self._known = 0
        self._restart(self._before[0])

    def read(self) -> Iterator[Row]:
        """Yield the values of each row that was completed since the last call."""
        try:
            file = open(self._path, "rb")  # noqa: SIM115
        except OSError:
            return
        with file:
            self._find_start(file)
            file.seek(self._offset)
            chunk = file.read()
            self._offset += len(chunk)
        yield from self._list_values(self._splitter.feed(chunk))

    def end(self) -> Iterator[Row]:
        """Yield the last values, also of a line that nothing ends."""
        yield from self.read()
        yield from self._list_values(self._splitter.end())

    def _list_values(self, lines: Iterator[str]) -> Iterator[Row]:
        for line in lines:
            values = self._lines.read(line) if self._lines else read_object(line)
            self._rows += bool(values)
            if values and self._rows > self._known:
                self._known = self._rows
                yield values

    def _restart(self, offset: int) -> None:
        self._offset, self._rows = offset, 0
        self._splitter = LineSplitter()
        self._lines = CsvLines() if self._spec.format == CSV else None
        if offset and self._lines:
            self._lines.read(self._read_first_line())

    def _find_start(self, file: IO[bytes]) -> None:
        """Go back to the file's beginning if it is another one, or was written again."""
        status = os.fstat(file.fileno())
        if self._before[0] and self._digest(self._before[0]) != self._before:
            self._before = (0, "")
            self._restart(0)
        head = file.read(FIRST_LINE_BYTES).partition(b"\n")
        identity = (status.st_ino, head[0] if head[1] else b"")
        changed = all(self._identity) and identity != self._identity
        if changed or status.st_size < self._offset:
            self._restart(0)
        self._identity = identity

    def _digest(self, size: Optional[int]) -> Tuple[int, str]:
        """Return the size and the digest of the file's first `size` bytes, of all if None."""
        try:
            with open(self._path, "rb") as file:
                content = file.read() if size is None else file.read(size)
        except OSError:
            return 0, ""
        return len(content), hashlib.sha1(content).hexdigest() if content else ""

    def _read_first_line(self) -> str:
        with open(self._path, "rb") as file:
            return file.read(FIRST_LINE_BYTES).partition(b"\n")[0].decode(errors="replace").strip()


class EventFiles:
    """Reads TensorBoard's event files by a program of the trainer's Python."""

    def __init__(self, folder: str, own: bool, environment: Mapping[str, str]) -> None:
        known = [] if own else sorted(list_event_files(folder))
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        above, name = os.path.split(package)
        steps = (
            f"import sys; sys.path.append({above!r})",
            f"from {name}.metrics.tensorboard_events import main",
            f"main({folder!r}, set({known!r}))",
        )
        self._process = subprocess.Popen(
            ["python", "-c", "\n".join(steps)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,  # an interrupt of the run is not meant for it
        )
        assert self._process.stdout
        os.set_blocking(self._process.stdout.fileno(), False)
        self._splitter = LineSplitter()

    def read(self) -> Iterator[Row]:
        """Yield the values that were found since the last call."""
        assert self._process.stdout
        chunk = self._process.stdout.read()
        for line in self._splitter.feed(chunk or b""):
            yield json.loads(line)

    def end(self) -> Iterator[Row]:
        """Yield the last values."""
        assert self._process.stdin
        assert self._process.stdout
        os.set_blocking(self._process.stdout.fileno(), True)
        try:
            rest, _ = self._process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            rest, _ = self._process.communicate()
        if self._process.returncode:
            sys.stderr.write("deployer: warning: metrics: TensorBoard's files were not read\n")
        for line in self._splitter.feed(rest):
            yield json.loads(line)
