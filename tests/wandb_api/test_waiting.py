"""Which answers are worth asking again: one rule, whoever asks."""

from __future__ import annotations

from deployer.agent.server import ServerReply
from deployer.errors import CloudError, KubeError, WandbError
from deployer.waiting import BUSY_STATUSES, PASSING_STATUSES
from deployer.wandb_api.client import RETRIED_STATUSES


def test_every_client_has_the_same_rule() -> None:
    for status in range(600):
        passing = status in PASSING_STATUSES
        assert WandbError("", status=status).passing == passing
        assert KubeError("", status=status).passing == passing
        assert ServerReply(status).passing == passing
        assert (status in RETRIED_STATUSES) == (passing and status != 0)
    assert {*BUSY_STATUSES} < {*PASSING_STATUSES}


def test_what_no_waiting_mends_is_final() -> None:
    final = (200, 301, 400, 401, 403, 404, 409, 422, 501, 505)
    assert not {*final} & {*PASSING_STATUSES}
    assert {0, 408, 429, 500, 502, 503, 504, 520, 530} <= {*PASSING_STATUSES}
    assert CloudError("", reason="RESOURCE_EXHAUSTED").passing
    assert not CloudError("", reason="PERMISSION_DENIED").passing


def test_our_own_verdict_is_final() -> None:
    """Nothing was asked, so that no other answer can come: an agent that does not go, say."""
    assert not KubeError("").passing
    assert not WandbError("").passing
