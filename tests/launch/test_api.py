"""What the Python API refuses by itself: values that the command line refuses as flags."""

from __future__ import annotations

import pytest

from deployer import api
from deployer.errors import ConfigError


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"replicas": 0}, "replicas: 0 is below 1"),
        ({"replicas": "two"}, "replicas: 'two' is not a whole number"),
        ({"replicas": True}, "replicas: True is not a whole number"),
        ({"run_cap": -1}, "run_cap: -1 is below 1"),
        ({"retries": -1}, "retries: -1 is below 0"),
    ],
)
def test_a_wrong_number_is_refused_by_its_name(arguments: dict[str, int], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        api.up("missing.yaml", **arguments)
