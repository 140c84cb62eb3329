"""The supervisor's questions to the server before an agent starts, and what the answers mean."""

import re
from dataclasses import dataclass
from typing import Pattern, Union

from ..exit_codes import FINISHED, MISCONFIGURED, SWEEP_ENDED, Ending
from .client import HOPELESS, Reply, Server, ask

CHILD_SECONDS = 60  # a server that drips byte by byte outwits the socket's time-out

VIEWER = "query Viewer { viewer { id entity username } }"
SWEEP_STATE = """
query GetSweepState($entity: String, $project: String, $sweep: String!) {
  project(name: $project, entityName: $entity) { sweep(sweepName: $sweep) { id state config } }
}
"""
OWN_KEY = """
mutation DeployerCreateAgentKey($sweepPath: String!, $agentName: String!, $key: String!) {
  deployerCreateAgentKey(input: {sweepPath: $sweepPath, agentName: $agentName, key: $key}) { key }
}
"""
OWN_KEY_ON_NODE = """
mutation DeployerCreateAgentKey(
  $sweepPath: String!, $agentName: String!, $key: String!, $node: String
) {
  deployerCreateAgentKey(
    input: {sweepPath: $sweepPath, agentName: $agentName, key: $key, node: $node}
  ) { key }
}
"""
# In the sweep's YAML, for which the standard library has no reader.
PROGRAM = re.compile(r"""^program: *["']?([^"'#\n]+?)["']? *$""", re.MULTILINE)
METRIC = re.compile(
    r"""^metric:(?:[ ]*\{[^}\n]*?|(?:[ ]*\n[ ]+.*)*?\n[ ]+)\bname:[ ]*["']?([^"'#,}\n]+)""",
    re.MULTILINE,
)
_REFUSED_FOR_GOOD = re.compile(r"permission denied|not found|does not exist", re.IGNORECASE)


@dataclass(frozen=True)
class Answer:
    """A server's answer; `status` is 0 or HOPELESS without one, and `error` then says why."""

    status: int
    viewer: bool = False
    sweep_state: str = ""
    error: str = ""
    retry_after_seconds: float = 0.0
    program: str = ""
    metric: str = ""


@dataclass(frozen=True)
class TryAgain:
    """There is no clear answer yet: wait, at least `seconds` if the server asked for it."""

    reason: str
    seconds: float


def judge_preflight(answer: Answer) -> Union[Ending, TryAgain, None]:
    """Tell whether an agent can start now (None), later, or never.

    Only a clear no of the server ends a supervisor; whatever may pass is waited for.
    """
    if answer.status == HOPELESS:
        return Ending(MISCONFIGURED, answer.error)
    if answer.status in (401, 403):
        return Ending(MISCONFIGURED, f"the key was refused: {answer.error}")
    if answer.status != 200 or (answer.error and not _REFUSED_FOR_GOOD.search(answer.error)):
        return TryAgain(answer.error, answer.retry_after_seconds)
    if not answer.viewer:
        return Ending(MISCONFIGURED, "the server does not know the key")
    if not answer.sweep_state:
        return Ending(MISCONFIGURED, f"no such sweep: {answer.error or 'the server knows none'}")
    if answer.sweep_state in SWEEP_ENDED:
        return Ending(FINISHED, f"the sweep was already {answer.sweep_state}")
    return None


def get_sweep_state(server: Server, sweep_path: str) -> Answer:
    """Ask who the key belongs to, then for the sweep's state."""
    entity, project, sweep = sweep_path.split("/")
    viewer = ask(server, VIEWER, {})
    if viewer.status != 200 or viewer.error or not viewer.data.get("viewer"):
        return Answer(viewer.status, False, "", viewer.error, viewer.retry_after_seconds)
    variables = {"entity": entity, "project": project, "sweep": sweep}
    reply = ask(server, SWEEP_STATE, variables)
    found = (reply.data.get("project") or {}).get("sweep") or {}
    if not found and (reply.error or reply.status != 200):
        return Answer(reply.status, True, "", reply.error, reply.retry_after_seconds)
    config = str(found.get("config") or "")
    program, metric = (find_word(pattern, config) for pattern in (PROGRAM, METRIC))
    state = str(found.get("state", "")).upper()
    return Answer(200, True, state, program=program, metric=metric)


def find_word(pattern: Pattern[str], config: str) -> str:
    """Return what a sweep's YAML has at PROGRAM or METRIC, empty for nothing."""
    found = pattern.search(config)
    return found.group(1).strip() if found else ""


def bring_own_key(server: Server, sweep_path: str, agent: str, key: str, node: str = "") -> Reply:
    """Bring a key that we have chosen, newer than the one we were given; twice is as good as once.

    From then on the server refuses whoever works for this agent with an older one, such as our
    predecessor on a node that is cut off. W&B's own server does not know this question, nor does an
    older backend know of the node.
    """
    variables = {"sweepPath": sweep_path, "agentName": agent, "key": key}
    if node:
        reply = ask(server, OWN_KEY_ON_NODE, {**variables, "node": node})
        if reply.passing or not reply.error:
            return reply
    return ask(server, OWN_KEY, variables)
