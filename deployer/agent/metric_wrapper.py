"""A run's first process if `metrics:` is set: starts the script, reads and logs its metrics.

It opens the run with W&B's SDK at the first metric, or after the script has run for a while. So a
script that rejects its command line or does not exist ends without a run, as usual. If the script
calls `wandb.init`, it gets the run instead. The wrapper ends with the script's exit code or signal.
"""

import codecs
import contextlib
import os
import queue
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from types import FrameType
from typing import Any, Deque, Dict, Iterator, List, Optional

from .host.processes import WRAPPER_NAME, is_core, list_descendants, name_process, send_signal
from .metric_lines import GaveUp, LineSplitter, MetricRow, MetricSpec, Rows, TextLines, parse_spec
from .settings import FOLDER_VARIABLE, METRICS_VARIABLE

OPEN_SECONDS = 10.0  # time for a script to reject its command line
POLL_SECONDS = 0.25
CHUNK_BYTES = 1 << 16
MOST_CHUNKS = 1000  # limit of queued chunks; then the script blocks
HELD_CHARACTERS = 1 << 20  # of output for W&B's console, before the run is opened
DRAIN_SECONDS = 2.0  # for output of a script's background processes
DRAIN_TICK_SECONDS = 0.02
TERMINATE_SECONDS = 5.0
LAST_LINES = 5
SHOWN_CHARACTERS = 200
SIGNALLED = 128  # a shell adds it to the signal that ended a program
INTERRUPTED_EXIT_CODE = 255  # the SDK's code for a script that an interrupt ended
FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCONT")
SUPERSEDED_SUFFIX = ".superseded"  # runs/local_runs.py
CLAIM, RELEASED = "DEPLOYER_METRICS_CLAIM", ".released"  # prologue/deployer_metrics.py


def main(command: List[str]) -> None:
    """Run a script's command; never returns."""
    spec = parse_spec(os.environ.pop(METRICS_VARIABLE))
    claim = os.path.join(os.environ[FOLDER_VARIABLE], "run-claimed")
    for path in (claim, claim + RELEASED):
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
    script = Script(command, {**os.environ, CLAIM: claim, "PYTHONUNBUFFERED": "1"})
    wrapper = Wrapper(spec, script, claim)
    try:
        status = wrapper.run()
    except BaseException:
        traceback.print_exc()
        script.terminate()
        os._exit(1)
    if wrapper.is_scripts and status >= 0:
        os._exit(status)  # the SDK's exit handler would fail without the killed wandb-core
    end(status)


class Script:
    """The user's command in its own process group; one pipe for stdout and stderr."""

    def __init__(self, command: List[str], environment: Dict[str, str]) -> None:
        reader, writer = os.pipe()
        name_process(WRAPPER_NAME)
        waiting: List[int] = []
        for name in FORWARDED:
            signal.signal(getattr(signal, name), lambda number, _: waiting.append(number))
        try:
            self._process = subprocess.Popen(
                command,
                stdout=writer,
                stderr=writer,
                env=environment,
                preexec_fn=os.setpgrp,  # safe, since no thread has started yet
            )
        except OSError as error:
            sys.stderr.write(f"{command[0]}: {error.strerror}\n")
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)
        os.close(writer)
        self.id = self._process.pid
        self.status: Optional[int] = None
        for name in FORWARDED:
            signal.signal(getattr(signal, name), self._forward)
        for number in waiting:
            self._forward(number, None)
        self.ended = threading.Event()
        self.chunks: "queue.Queue[bytes]" = queue.Queue(MOST_CHUNKS)
        self.reading = threading.Thread(target=self._read, args=(reader,), daemon=True)
        self.reading.start()
        threading.Thread(target=self._wait, daemon=True).start()

    def _forward(self, number: int, _frame: Optional[FrameType]) -> None:
        # An interrupt goes to the whole group, like Ctrl-C in a terminal. The SDK also sends one
        # when the server has stopped the run.
        if self.status is None:
            send_signal(-self.id if number == signal.SIGINT else self.id, number)

    def _read(self, reader: int) -> None:
        """Copy the output to the agent's log at once, even while the SDK blocks."""
        while True:
            chunk = os.read(reader, CHUNK_BYTES)
            if not chunk:
                return
            write_all(chunk)
            self.chunks.put(chunk)

    def _wait(self) -> None:
        self.status = self._process.wait()
        self.ended.set()

    def terminate(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.status is None:
                send_signal(-self.id, number)
                self.ended.wait(TERMINATE_SECONDS)


class Wrapper:
    """Reads a script's output until its end, and logs the metrics in it."""

    def __init__(self, spec: MetricSpec, script: Script, claim: str) -> None:
        self._spec, self._script, self._claim = spec, script, claim
        self._run: Any = None
        self.is_scripts = False  # the script has opened the run itself
        self._began_at = time.monotonic()
        self._splitter = LineSplitter()
        self._rows = Rows(spec)
        self._pending: List[MetricRow] = []
        self._last_lines: Deque[str] = deque(maxlen=LAST_LINES)
        self._found = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""  # output not yet sent to W&B's console
        self._text: Optional[TextLines] = TextLines(spec.pattern)

    def run(self) -> int:
        """Run until the script ends; return its exit status, negative for a signal."""
        sys.stdout = open(os.devnull, "w", encoding="utf-8", errors="replace")  # noqa: SIM115
        __import__("wandb")
        while not self._script.ended.is_set():
            self._read_chunk(POLL_SECONDS)
            self._look()
        # Read the remaining output; a background process may keep the pipe open.
        deadline = time.monotonic() + DRAIN_SECONDS
        while self._script.reading.is_alive() and time.monotonic() < deadline:
            self._read_chunk(DRAIN_TICK_SECONDS)
        while not self._script.chunks.empty():
            self._read_chunk(0)
        self._take_lines(self._splitter.end())
        self._look()
        status = self._script.status
        assert status is not None
        self._finish(status)
        return status

    def _read_chunk(self, seconds: float) -> None:
        """Read a chunk of the script's output; wait at most `seconds` for it."""
        try:
            chunk = self._script.chunks.get(timeout=seconds)
        except queue.Empty:
            return
        if not self.is_scripts:
            self._held = (self._held + self._decoder.decode(chunk))[-HELD_CHARACTERS:]
        self._take_lines(self._splitter.feed(chunk))

    def _take_lines(self, lines: Iterator[str]) -> None:
        for line in lines:
            self._last_lines.append(line[:SHOWN_CHARACTERS])
            if self._text and not self.is_scripts:
                try:
                    self._pending += filter(None, [self._text.read(line)])
                except GaveUp as gave_up:
                    self._warn(f"the pattern {gave_up}; no more metrics are read")
                    self._text = None

    def _look(self) -> None:
        """Log the metrics found; open the run first, or leave it to the script."""
        if self.is_scripts:
            return
        if os.path.exists(self._claim):
            self._yield_run()
            return
        wanted = any(self._spec.wants(name) for row in self._pending for name in row)
        works = time.monotonic() - self._began_at > OPEN_SECONDS and not self._script.ended.is_set()
        if self._run is None and (wanted or works):
            self._open()
        if self._run is not None:
            self._log()

    def _open(self) -> None:
        """Open the run; raises what `wandb.init` raises."""
        import wandb

        settings: Dict[str, Any] = {"x_stats_pid": self._script.id, "console": "wrap"}
        if os.environ.get("WANDB_CONSOLE"):
            del settings["console"]
        known = getattr(wandb.Settings, "model_fields", settings)
        settings = {name: value for name, value in settings.items() if name in known}
        self._run = wandb.init(settings=wandb.Settings(**settings))
        step = self._spec.step
        last = self._run.summary.get(step) if step and self._run.resumed else None
        self._rows = Rows(self._spec, last if isinstance(last, (int, float)) else None)
        if step:
            self._run.define_metric("*", step_metric=step)

    def _log(self) -> None:
        if self._held:
            # The SDK's stdout writes to /dev/null and to W&B; the log already has this text.
            sys.stdout.write(self._held)
            self._held = ""
        pending, self._pending = self._pending, []
        for values in pending:
            row = self._rows.build(values)
            if row:
                self._found += 1
                self._run.log(row)

    def _yield_run(self) -> None:
        """Leave the run to the script: kill our wandb-core, so that it reports no end."""
        if self._run is not None:
            for process in list_descendants(os.getpid()):
                if process.parent == os.getpid() and is_core(process):
                    send_signal(process.id, signal.SIGKILL)
            written = os.path.join(os.path.dirname(self._run.dir), f"run-{self._run.id}.wandb")
            with contextlib.suppress(OSError):
                os.rename(written, written + SUPERSEDED_SUFFIX)
        self.is_scripts, self._run, self._held = True, None, ""
        with open(self._claim + RELEASED, "w", encoding="utf-8"):
            pass

    def _finish(self, status: int) -> None:
        """End the run with the script's exit code; after a signal, as the SDK would end it."""
        if self.is_scripts:
            return
        if self._run is None and status == 0:
            self._open()
            self._log()
        if self._run is None:
            return
        if not self._found and status == 0:
            names = self._spec.names
            wanted = "any metric" if names is None else " or ".join(sorted(names)) or "a metric"
            said = (
                f"the script has ended, and {wanted} was not found in its output; its last lines:"
            )
            self._warn("\n".join([said, *(f"  {line}" for line in self._last_lines)]))
        if status >= 0 or status == -signal.SIGINT:
            self._run.finish(exit_code=status if status >= 0 else INTERRUPTED_EXIT_CODE)
        else:
            time.sleep(POLL_SECONDS)  # for wandb-core to store the last rows

    def _warn(self, text: str) -> None:
        sys.stderr.write(f"deployer: warning: metrics: {text}\n")


def write_all(chunk: bytes) -> None:
    """Write to the agent's log; ignore errors such as a full disk."""
    with contextlib.suppress(OSError):
        while chunk:
            chunk = chunk[os.write(1, chunk) :]


def end(status: int) -> None:
    """Exit with the script's exit code, or by its signal without a core dump."""
    sys.stderr.flush()
    if status >= 0:
        sys.exit(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if -status not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
    os._exit(SIGNALLED - status)
