"""The search as the server uses it: draws at once, models in a process of their own.

A model can take a second of one core: the server answers meanwhile, and survives if that process
is killed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib.util import find_spec
from typing import Any, TypeVar

from deployer.backend.scheduling.search.runs import SearchRun
from deployer.backend.scheduling.search.suggest import SearchError, needs_model, refusals, suggest
from deployer.installation import install_package
from deployer.sweeps.parameters import expected_count

__all__ = [
    "SearchEngine",
    "SearchError",
    "SearchRun",
    "expected_count",
    "find_missing_package",
    "refusals",
]

Result = TypeVar("Result")
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def find_missing_package() -> str | None:
    """Return which package bayes lacks and how to install it, if any; imports nothing."""
    if find_spec("sklearn"):
        return None
    return f"method bayes needs scikit-learn: {install_package('scikit-learn')}"


class SearchEngine:
    """Suggests configurations; may be used from several threads."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._closed = False
        self._lock = threading.Lock()

    def suggest(
        self, config: Mapping[str, Any], seed: str, runs: Sequence[SearchRun], index: int
    ) -> dict[str, Any] | None:
        """Do what `suggest.suggest` does, blocking for as long as a model takes.

        A process that was killed is replaced and asked once more.
        """
        if not needs_model(config, runs):
            if config.get("method") == "bayes" and find_missing_package() is None:
                self._submit(_import_model)  # seconds of imports, wanted soon
            return suggest(config, seed, runs, index)
        request = (dict(config), seed, list(runs), index)
        try:
            return self._submit(suggest, *request).result()
        except BrokenProcessPool:
            return self._submit(suggest, *request).result()

    @property
    def alive(self) -> bool:
        """Tell whether its process, if it has one, is there."""
        return self._pool is None or bool(multiprocessing.active_children())

    def close(self) -> None:
        """End the process, if there is one, whatever it is at work on."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool:
            for process in multiprocessing.active_children():
                process.kill()
            pool.shutdown(wait=True, cancel_futures=True)

    def _submit(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        with self._lock:
            if self._closed:
                raise BrokenProcessPool("the search was closed")
            if self._pool is None:
                self._pool = _new_pool()
            try:
                return self._pool.submit(function, *arguments)
            except BrokenProcessPool:
                self._pool.shutdown(wait=False)
                self._pool = _new_pool()
                return self._pool.submit(function, *arguments)


def _new_pool() -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(max_workers=1, mp_context=context, initializer=_prepare_process)


def _prepare_process() -> None:
    """Use one thread, ignore Ctrl-C, which the server handles, and end with the server."""
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _import_model() -> None:
    import deployer.backend.scheduling.search.bayes  # noqa: F401
