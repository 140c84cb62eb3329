"""What only the server knows of an agent."""

from __future__ import annotations

from deployer.model import Agent
from deployer.watch.status import UNHEARD, note_unheard


def test_agents_that_no_server_has_heard_of_say_so_after_a_while() -> None:
    agents = (
        Agent("old", "e/p/s", "running", 0.0),
        Agent("new", "e/p/s", "running", 80.0),
        Agent("pending", "e/p/s", "starting", 0.0),
        Agent("explained", "e/p/s", "running", 0.0, reason="node n does not answer"),
    )
    reasons = [agent.reason for agent in note_unheard(agents, heard=False, now=100.0)]
    assert reasons == [UNHEARD, "", "", "node n does not answer"]
    assert note_unheard(agents, heard=True, now=100.0) == agents
