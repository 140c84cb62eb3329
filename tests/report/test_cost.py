"""What a report says a sweep has cost."""

from __future__ import annotations

import re

import pytest

from deployer.report.collection import collect
from tests.backend.client import Client
from tests.browser.sweeps import make_sweep, run_once
from tests.conftest import ServedBackend
from tests.report.served import NOW, open_server, path_of

CLUSTER, AGENT = 3.0, 0.5  # dollars an hour: of what all agents share, and of each


def test_what_agents_share_is_paid_once(
    backend: ServedBackend, request: pytest.FixtureRequest
) -> None:
    client = Client.of(backend, re.sub(r"\W+", "-", request.node.name))
    sweep = make_sweep(client, 1)
    run_once(client, client.create_agent(sweep, "node-2"), 1)
    asked: list[int] = []

    def find_price(agents: int) -> float:
        asked.append(agents)
        return CLUSTER + AGENT * agents

    cost = collect(open_server(client), path_of(client, sweep), NOW, find_price).cost
    assert asked == [2]
    assert cost.agent_hours
    assert cost.usd == pytest.approx(cost.agent_hours * (CLUSTER + 2 * AGENT) / 2)
