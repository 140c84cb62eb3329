"""Whether an image's PyTorch has kernels for a GPU: a label of the image, a table of GPUs; pure.

The label holds what `torch.cuda.get_arch_list()` prints, such as `sm_75 sm_80`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

ARCHITECTURES_LABEL = "dev.deployer.cuda-architectures"
VARIANT_LABEL = "dev.deployer.variant"
OLDER = "image: {variant: cuda12} in deployer.yaml"
# https://developer.nvidia.com/cuda-gpus; major and minor number. Others are not compared.
CAPABILITIES = {
    "K80": (3, 7),
    "M60": (5, 2),
    "P100": (6, 0),
    "P4": (6, 1),
    "P40": (6, 1),
    "V100S?": (7, 0),
    "T4": (7, 5),
    "A100": (8, 0),
    "A30": (8, 0),
    "A10G?": (8, 6),
    "A40": (8, 6),
    "A16": (8, 6),
    "L4": (8, 9),
    "L40S?": (8, 9),
    "G?H100": (9, 0),
    "G?H200": (9, 0),
    "G?B200": (10, 0),
}
_LABEL = re.compile(rf'\b({re.escape(ARCHITECTURES_LABEL)}[.\w]*)="([^"]*)"')
_DEFAULT = re.compile(r"^ARG VARIANT=(\w+)", re.MULTILINE)
_ARCHITECTURE = re.compile(r"(sm|compute)_([0-9]+)([0-9])[af]?")


def explain_mismatch(architectures: str, gpu: str) -> str:
    """Return a sentence if the image's PyTorch cannot run on the GPU; empty if unknown or fine.

    `architectures` is the label's value; `gpu` is the GPU's name in Google's, NVIDIA's or a node
    label's spelling: nvidia-tesla-v100, Tesla V100-SXM2-16GB, Tesla-V100-SXM2-16GB.
    """
    capability = find_capability(gpu)
    found = [(k, (int(a), int(b))) for k, a, b in _ARCHITECTURE.findall(architectures)]
    if capability is None or not found:
        return ""
    for kind, built in found:
        same = built[0] == capability[0] or kind == "compute"  # which the driver compiles
        if same and built <= capability:
            return ""
    return (
        f"the image's PyTorch has no kernels for {gpu} (sm_{capability[0]}{capability[1]}): "
        f"it has {architectures}"
    )


def find_capability(gpu: str) -> tuple[int, int] | None:
    """Return a GPU's compute capability; None if it is not in the table."""
    for name, capability in CAPABILITIES.items():
        if re.search(rf"(?<![A-Z0-9]){name}(?![A-Z0-9])", gpu.upper()):
            return capability
    return None


def read_architectures(labels: Mapping[str, str]) -> str:
    """Return the architectures of an image; empty if its labels say nothing.

    An image with variants has a label for each, and one that names its own.
    """
    variant = labels.get(VARIANT_LABEL, "")
    return labels.get(ARCHITECTURES_LABEL) or labels.get(f"{ARCHITECTURES_LABEL}.{variant}", "")


def predict_labels(dockerfile: str, arguments: Mapping[str, str]) -> dict[str, str]:
    """Return those of these labels that an image of a Dockerfile will have."""
    default = _DEFAULT.search(dockerfile)
    variant = arguments.get("VARIANT") or (default[1] if default else "")
    found = dict(_LABEL.findall(dockerfile))
    return {**found, VARIANT_LABEL: variant}
