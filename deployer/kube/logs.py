"""A pod's log, read part by part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from deployer.errors import KubeError
from deployer.kube.client import Kube
from deployer.kube.failures import AGAIN, CATCHABLE
from deployer.transience import NO_ANSWER

TO_THE_SECOND = len("2026-01-01T00:00:00")


class PodLog(NamedTuple):
    """New lines of a pod's log. The next answer begins with those `seen`, with their time stamps.

    `cut`: the connection broke off before the end of the answer.
    """

    lines: Sequence[str]
    seen: Sequence[bytes]
    cut: bool = False


def read_log(kube: Kube, pod: str, seen: Sequence[bytes] = (), last: bool = False) -> PodLog:
    """Return a pod's lines after the part whose `seen` this is.

    With `last` also a last line without its end. Raises KubeError: 404 for a pod that is gone, 400
    for one that has not started.
    """
    query = {"timestamps": "true"}
    if seen:
        query["sinceTime"] = seen[-1].partition(b" ")[0].decode(errors="replace")
    answer, cut = bytearray(), False
    response = kube.open_log(pod, query)
    try:
        for chunk in response.stream(amt=1 << 16):
            answer += chunk
    except CATCHABLE:
        cut = True
    finally:
        response.close()
        response.release_conn()
    *lines, rest = bytes(answer).split(b"\n")
    if rest and last and not cut:
        lines.append(rest)
    # The server takes whole seconds, so that lines come again. Time stamps alone do not tell which:
    # several may be equal, and those of stdout and stderr are not always in order.
    known, new = Counter(seen), []
    for line in lines:
        if known[line]:
            known[line] -= 1
        else:
            new.append(line)
    if cut and not new:
        raise KubeError(f"the log of pod {pod} was cut off", AGAIN, status=NO_ANSWER)
    if new:
        second = lines[-1][:TO_THE_SECOND]
        seen = [line for line in lines if line[:TO_THE_SECOND] >= second]
    texts = [line.partition(b" ")[2].decode(errors="replace").rstrip("\r") for line in new]
    return PodLog(texts, seen, cut)
