"""Short cluster specifications for tests: a head, a GPU pool, and what parsing them says."""

from __future__ import annotations

import pytest

from deployer.config.document import parse_document
from deployer.errors import ConfigError
from deployer.gke.specification import ClusterSpec, GpuChoice, parse_spec

HEAD = "name: lab\nlocation: us-central1-a\n"
T4 = "accelerator: nvidia-tesla-t4, machine_type: n1-standard-8"
A100 = "accelerator: nvidia-tesla-a100, machine_type: a2-highgpu-1g"
GOOD = f"gpus: [{{{T4}}}]\n"


def parse(text: str) -> ClusterSpec:
    return parse_spec(parse_document(text, "lab.yaml"))


def complain(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return [(error.text, error.fix) for error in caught.value.findings]


def parse_choice(gpu: str) -> GpuChoice:
    return parse(f"{HEAD}gpus: [{{{gpu}}}]").gpus[0]
