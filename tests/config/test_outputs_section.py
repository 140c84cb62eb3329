"""The section `outputs:`, and what runs are told by it."""

from __future__ import annotations

import pytest

from deployer.agent.settings import ENDPOINT_VARIABLE, KEEP_VARIABLE
from deployer.config.sections.kubernetes import ClusterConfig
from deployer.errors import ConfigError
from deployer.executors.kubernetes.data.outputs import add_outputs
from tests.sections import parse_outputs


def test_agents_are_told_the_address_and_get_the_credentials_from_a_secret() -> None:
    found = parse_outputs(
        {"url": "s3://models/sweeps/", "endpoint_url": "http://minio:9000", "secret": "store"}
    )
    cluster = add_outputs(ClusterConfig(image="x", env={"A": "1"}), found)
    assert dict(cluster.env) == {
        KEEP_VARIABLE: "s3://models/sweeps",
        ENDPOINT_VARIABLE: "http://minio:9000",
        "A": "1",
    }
    assert {name: (one.name, one.key) for name, one in cluster.secrets.items()} == {
        "DEPLOYER_OUTPUT_KEY_ID": ("store", "AWS_ACCESS_KEY_ID"),
        "DEPLOYER_OUTPUT_KEY": ("store", "AWS_SECRET_ACCESS_KEY"),
    }


def test_nothing_is_told_without_a_section() -> None:
    cluster = ClusterConfig(image="x")
    assert add_outputs(cluster, parse_outputs(None)) == cluster


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"url": "gs://models"}, "outputs.url: is not an S3 address"),
        ({"url": "models"}, "outputs.url: is not the address of an object store"),
        ({"secret": "store"}, "outputs: secret: needs url, which is missing"),
        (
            {"url": "s3://a", "endpoint_url": "minio"},
            "endpoint_url: is not the address of a server",
        ),
    ],
)
def test_complaints(section: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_outputs(section)
    assert said in caught.value.message
