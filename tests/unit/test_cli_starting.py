"""What is checked before agents are started."""

from __future__ import annotations

import pytest

from deployer.cli.starting import check_reach
from deployer.errors import ConfigError


def test_pods_do_not_reach_this_machines_own_address() -> None:
    check_reach("local", "http://127.0.0.1:8080")
    check_reach("kubernetes", "http://10.0.0.1:8080")
    with pytest.raises(ConfigError) as raised:
        check_reach("kubernetes", "http://localhost:8080")
    assert raised.value.message == (
        "--on: pods in a cluster do not reach http://localhost:8080, an address of this machine "
        "alone"
    )
    assert raised.value.hint == (
        "deployer backend down; deployer backend serve --host ADDRESS, one that pods reach"
    )
