"""The next configuration of a sweep, from its configuration, a seed, its runs and an index.

It depends only on these arguments.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeVar

from deployer.installation import install_package
from deployer.sweeps.parameters import parse_parameters
from deployer.sweeps.results import metric_goal, metric_name
from deployer.sweeps.space import Space

# States of runs whose outcome counts; a run without a valid outcome counts as the worst seen.
ENDED = ("finished", "failed", "crashed", "killed")
METHODS = ("grid", "random", "bayes")
# The number of random runs before the model is used; Optuna's default.
STARTUP_RUNS = 10
# The minimum number of outcomes for the model. Optuna waits for ten, with random runs until then.
FEWEST_OUTCOMES = 3
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class SearchRun:
    """A run's assignment and outcome.

    `arguments` are the assigned values, {top name: value or nested mapping}; `state` is W&B's
    state; `value` is the metric, None if there is none; it may be nan or infinite.
    """

    arguments: Mapping[str, Any]
    state: str
    value: float | None = None

    @property
    def ended(self) -> bool:
        return self.state in ENDED


class SearchError(Exception):
    """The sweep's configuration cannot be searched; the message says why."""


def suggest(
    config: Mapping[str, Any], seed: str, runs: Sequence[SearchRun], index: int
) -> dict[str, Any] | None:
    """Return the configuration at `index` (0, 1, …) as plain values, None when a grid is done.

    The names are in W&B's order. Only bayes uses `runs`. The caller applies `run_cap`.
    Raise SearchError for a sweep that cannot be searched.
    """
    problems = refusals(config)
    if problems:
        raise SearchError(problems[0])
    space, _ = parse_parameters(config["parameters"])
    if config["method"] == "grid":
        return space.grid_point(index)
    if needs_model(config, runs):
        from deployer.backend.scheduling.bayes import suggest_bayes  # imports take a second

        impute = str(config["metric"].get("impute", "worst"))
        return suggest_bayes(space, metric_goal(config), seed, runs, index, impute)
    return random_point(space, seed, index)


def needs_model(config: Mapping[str, Any], runs: Sequence[SearchRun]) -> bool:
    """Return True if the next suggestion comes from a model: bayes, after its first runs."""
    if config.get("method") != "bayes" or len(runs) < STARTUP_RUNS:
        return False
    return sum(run.ended for run in runs) >= FEWEST_OUTCOMES


def random_point(space: Space, seed: str, index: int) -> dict[str, Any]:
    generator = random.Random(f"{seed}:{index}")
    return space.point([generator.random() for _ in space.parameters])


def refusals(config: Mapping[str, Any]) -> list[str]:
    """Return all reasons why a sweep cannot be searched; empty if it can.

    `find_missing_package` checks the packages for bayes.
    """
    method = config.get("method")
    space, problems = parse_parameters(config.get("parameters", {}))
    found = [
        f"{c.key}: {c.message}" + (f" ({c.fix})" if c.fix else "") for c in problems if c.is_error
    ]
    if method not in METHODS:
        found.append(f"method: {method!r} is not one of {', '.join(METHODS)}")
    if method == "grid":
        found += [
            f"parameters.{'.parameters.'.join(p.path)}: a grid needs values that can be counted"
            for p in space.uncountable
        ]
    if method == "bayes" and not metric_name(config):
        found.append("metric: bayes needs a metric with a name")
    return found


# The server's search: random draws at once, models in a separate process.
#
# A model can take a second of one core; the server keeps answering, and survives if that process is
# killed.

Result = TypeVar("Result")


def find_missing_package() -> str | None:
    """Return how to install the package that bayes lacks; None if complete; imports nothing."""
    if find_spec("sklearn"):
        return None
    return f"method bayes needs scikit-learn: {install_package('scikit-learn')}"


class SearchEngine:
    """Suggests configurations; thread-safe."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._closed = False
        self._lock = threading.Lock()

    def suggest(
        self, config: Mapping[str, Any], seed: str, runs: Sequence[SearchRun], index: int
    ) -> dict[str, Any] | None:
        """Call `suggest`; block while a model computes.

        If the process was killed, start a new one and retry once.
        """
        if not needs_model(config, runs):
            if config.get("method") == "bayes" and find_missing_package() is None:
                self._submit(_import_model)  # seconds of imports, needed soon
            return suggest(config, seed, runs, index)
        request = (dict(config), seed, list(runs), index)
        try:
            return self._submit(suggest, *request).result()
        except BrokenProcessPool:
            return self._submit(suggest, *request).result()

    @property
    def alive(self) -> bool:
        return self._pool is None or bool(multiprocessing.active_children())

    def close(self) -> None:
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
    """Use one thread, ignore Ctrl-C, which the server handles, and exit with the server."""
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _import_model() -> None:
    import deployer.backend.scheduling.bayes  # noqa: F401
