"""An image's PyTorch and a GPU: the label, the Dockerfile's variants, the table of GPUs."""

from __future__ import annotations

import pytest

from deployer.images.image import (
    ARCHITECTURES_LABEL,
    explain_mismatch,
    find_capability,
    predict_labels,
    read_architectures,
)
from tests.contract.sdks import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()


def read_variant(**arguments: str) -> str:
    return read_architectures(predict_labels(DOCKERFILE, arguments))


@pytest.mark.parametrize(
    ("gpu", "capability"),
    [
        ("nvidia-tesla-v100", (7, 0)),
        ("Tesla V100-SXM2-16GB", (7, 0)),
        ("Tesla-P100-PCIE-16GB", (6, 0)),
        ("nvidia-tesla-p4", (6, 1)),
        ("NVIDIA A10G", (8, 6)),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", (8, 0)),
        ("NVIDIA H100 80GB HBM3", (9, 0)),
        ("nvidia-gb200", (10, 0)),
        ("NVIDIA GeForce RTX 4090", None),
    ],
)
def test_a_gpu_is_known_by_any_of_its_names(gpu: str, capability: tuple[int, int] | None) -> None:
    assert find_capability(gpu) == capability


@pytest.mark.parametrize(
    ("architectures", "gpu", "fits"),
    [
        ("sm_75 sm_80", "Tesla T4", True),
        ("sm_80", "NVIDIA A10", True),  # of the same major number, and older
        ("sm_86", "NVIDIA A100", False),
        ("sm_90a compute_90", "NVIDIA B200", True),
        ("sm_90", "NVIDIA B200", False),
        ("", "Tesla V100", True),
        ("sm_80", "no such GPU", True),
    ],
)
def test_kernels_run_on_their_own_generation(architectures: str, gpu: str, fits: bool) -> None:
    assert (explain_mismatch(architectures, gpu) == "") is fits


def test_our_image_has_a_variant_for_older_gpus() -> None:
    assert explain_mismatch(read_variant(), "Tesla V100-SXM2-16GB") == (
        "the image's PyTorch has no kernels for Tesla V100-SXM2-16GB (sm_70): "
        "it has sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
    )
    for gpu in ("nvidia-tesla-v100", "nvidia-tesla-p100", "nvidia-tesla-t4", "nvidia-h100-80gb"):
        assert explain_mismatch(read_variant(VARIANT="cuda12"), gpu) == ""
    assert read_variant(VARIANT="cpu") == ""
    assert read_architectures({ARCHITECTURES_LABEL: "sm_70"}) == "sm_70"  # of another Dockerfile


def test_the_label_is_what_the_locked_torch_was_built_for() -> None:
    import torch

    assert torch._C._cuda_getArchFlags() == read_variant()
