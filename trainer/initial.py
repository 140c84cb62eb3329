"""How a network starts: with whitened images, and with convolutions that pass their input on."""

import torch
from torch import Tensor, nn

PATCH = 2  # pixels: the side of what is whitened
WHITENED_IMAGES = 1000  # enough to know the patches' covariance
EPSILON = 5e-4  # keeps directions without variance from growing


def build_whitening(images: Tensor) -> nn.Module:
    """Build a frozen layer that makes the values of each small patch uncorrelated.

    Takes normalised images (N, C, H, W). Its filters are the eigenvectors of the patches'
    covariance, each scaled to variance 1, and the same with the other sign, so that ReLU loses
    nothing. From Page's "How to Train Your ResNet 8" (2019) and arXiv 2404.00498.
    """
    patches = images.unfold(2, PATCH, 1).unfold(3, PATCH, 1)  # N, C, H, W, patch
    values = patches.permute(0, 2, 3, 1, 4, 5).flatten(0, 2).flatten(1)
    variances, directions = torch.linalg.eigh(values.T.cov())
    filters = (directions / (variances + EPSILON).sqrt()).T.view(-1, images.shape[1], PATCH, PATCH)
    layer = nn.Conv2d(images.shape[1], 2 * len(filters), PATCH, padding=1, bias=False)
    layer.weight.requires_grad_(False).copy_(torch.cat([filters, -filters]))
    return nn.Sequential(layer, nn.ReLU())


@torch.no_grad()
def start_as_identity(model: nn.Module) -> None:
    """Let the first filters of each trainable convolution return its input (arXiv 1706.00388)."""
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d) and layer.weight.requires_grad:
            nn.init.dirac_(layer.weight[: layer.in_channels])
