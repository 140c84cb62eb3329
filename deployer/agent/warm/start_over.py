"""Starts a run over without a parent, where it is found to be unlike a cold one."""

import os
import signal
import sys
from typing import Any, Container, Dict

from .lists import SCRIPT, explain, read_unfit, write_unfit
from .program import OOM_SCORE, change_score


class StartOver:
    """Called in a run with a module and why it is not what a cold run would have imported.

    `listed` are the modules that runs have imported before; others were assumed, so that the next
    parent knows better.
    """

    def __init__(
        self, task: Dict[str, Any], folder: str, path: str, listed: Container[str]
    ) -> None:
        self._listed = listed
        self._task = task
        self._folder = folder
        self._path = path
        self._process = os.getpid()

    def __call__(self, module: str, reason: str) -> None:
        """Remember the module, or the whole script, and start over; returns if it cannot."""
        if module in self._listed or module == SCRIPT:
            write_unfit(self._path, {**read_unfit(self._path), module: reason})
        else:
            with open(os.path.join(self._folder, "warm.wrong"), "w", encoding="utf-8"):
                pass
        why = explain(module, reason)
        out: Any = sys.__stdout__  # the script may have put another one in its place
        err: Any = sys.__stderr__
        if not self._can_be:
            err.write(f"deployer: {why}; this run goes on as it is\n")
            return
        err.write(f"deployer: {why}; the run starts over without a parent\n")
        out.flush()
        err.flush()
        with open(os.path.join(self._folder, "start"), "w", encoding="utf-8") as file:
            file.write(f"cold: {why}")
        self._execute()

    @property
    def _can_be(self) -> bool:
        """Tell whether nobody knows of this run yet: no server, no thread, no other process."""
        wandb = sys.modules.get("wandb")
        alone = len(os.listdir("/proc/self/task")) == 1 and os.getpid() == self._process
        return alone and getattr(wandb, "run", None) is None

    def _execute(self) -> None:
        task = self._task
        change_score(-OOM_SCORE)
        os.chdir(task["folder"])
        os.umask(task["umask"])
        os.sched_setaffinity(0, task["affinity"])
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            if number not in (signal.SIGPIPE, signal.SIGXFSZ):
                ignored = number in task["ignored"]
                signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, task["blocked"])
        os.execve(sys.executable, ["python", *task["arguments"]], task["environment"])
