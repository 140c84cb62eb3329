"""Waits for Google's operations and reports their stages."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from deployer.errors import CloudError
from deployer.gke.api.client import Gke
from deployer.gke.api.failures import DOWN, UP, CloudCall, build_failure
from deployer.gke.api.model import CloudOperation
from deployer.text import format_seconds

LOG = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
GROWTH = 1.5
TELL_SECONDS = 30.0  # between lines while nothing changes
SILENCE_SECONDS = 300.0  # the longest that Google may stay silent while an operation runs
# The longest that an operation may report no progress: creating a cluster takes a tenth of it.
STANDSTILL_SECONDS = 3600.0
WORDS = {
    "CREATE_CLUSTER": "creating cluster {cluster}",
    "DELETE_CLUSTER": "deleting cluster {cluster}",
    "CREATE_NODE_POOL": "creating pool {pool} of cluster {cluster}",
    "DELETE_NODE_POOL": "deleting pool {pool} of cluster {cluster}",
}


@dataclass(frozen=True)
class Waiter:
    """A clock, and growing pauses between polls."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def pauses(self) -> Iterator[float]:
        """Sleep a little longer each time, and yield the seconds since the first."""
        started, pause = self.now(), FIRST_PAUSE_SECONDS
        while True:
            self.sleep(pause)
            yield self.now() - started
            pause = min(pause * GROWTH, LONGEST_PAUSE_SECONDS)


def describe_operation(operation: CloudOperation) -> str:
    plain = operation.kind.replace("_", " ").lower() + " of cluster {cluster}"
    form = WORDS.get(operation.kind, plain)
    what = form.format(cluster=operation.cluster, pool=operation.pool)
    return f"{what} in {operation.location}"


def wait_for_operation(gke: Gke, operation: CloudOperation, waiter: Waiter) -> CloudOperation:
    """Wait until an operation has ended, successfully or not, and report its stages.

    Raises CloudError if Google does not answer for five minutes, or reports no progress for an
    hour.
    """
    what, shown, told_at, heard_at = describe_operation(operation), "", 0.0, 0.0
    moved_at, state = 0.0, ("", "")
    LOG.info(what)
    for elapsed in waiter.pauses():
        try:
            now = gke.get_operation(operation)
        except CloudError as error:
            if not error.passing or elapsed - heard_at > SILENCE_SECONDS:
                raise
            continue
        heard_at = elapsed
        operation = now or replace(operation, status="DONE")  # Google forgot it, so it is over
        if operation.done:
            ended = "failed after" if operation.failed else "done after"
            LOG.info(f"{what}: {ended} {format_seconds(elapsed)}")
            return operation
        if (operation.status, operation.progress) != state:
            moved_at, state = elapsed, (operation.status, operation.progress)
        if elapsed - moved_at > STANDSTILL_SECONDS:
            raise _explain_standstill(what, operation)
        if operation.progress != shown or elapsed - told_at > TELL_SECONDS:
            shown, told_at = operation.progress, elapsed
            LOG.info(f"{what}: {format_seconds(elapsed)}{f', {shown}' if shown else ''}")
    raise AssertionError("unreachable")


def _explain_standstill(what: str, operation: CloudOperation) -> CloudError:
    where = f", {operation.progress}" if operation.progress else ""
    return CloudError(
        f"{what}: no progress for an hour ({operation.name}, {operation.status}{where})",
        "Google continues it, and deployer gke down waits for it; "
        "https://status.cloud.google.com lists Google's outages",
        "STANDSTILL",
    )


def find_running(gke: Gke, location: str, cluster: str) -> CloudOperation | None:
    """Return the running operation on a cluster or its pools, no matter who started it."""
    running = (one for one in gke.list_operations(location) if not one.done)
    return next((one for one in running if one.cluster == cluster), None)


def wait_until_idle(gke: Gke, location: str, cluster: str, waiter: Waiter) -> CloudOperation | None:
    """Wait until no operation runs on a cluster; return the one that ended last."""
    last = None
    waited: set[str] = set()
    while operation := find_running(gke, location, cluster):
        if operation.name in waited:  # still listed although Google has no details about it
            break
        waited.add(operation.name)
        last = wait_for_operation(gke, operation, waiter)
    return last


def explain_operation(gke: Gke, operation: CloudOperation) -> CloudError:
    """Return why an operation failed, in Google's words."""
    attempt = CloudCall(
        f"{describe_operation(operation)} failed",
        gke.project,
        operation.location,
        operation.cluster,
    )
    otherwise = DOWN if operation.kind == "DELETE_CLUSTER" else UP
    return build_failure(
        attempt,
        operation.code,
        operation.sentence,
        operation.conditions,
        otherwise=otherwise,
    )
