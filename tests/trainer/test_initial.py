"""How a network starts: whitened patches, and convolutions that are the identity."""

from __future__ import annotations

import torch
from torch import nn

from trainer.initial import build_whitening, start_as_identity


def test_patches_are_uncorrelated_with_variance_one_and_no_sign_is_lost() -> None:
    torch.manual_seed(0)
    images = torch.randn(200, 3, 8, 8).cumsum(dim=3)  # neighbours resemble each other
    layer = build_whitening(images)
    values = layer(images)[:, :, 1:-1, 1:-1]  # without the padding
    signed = (values[:, :12] - values[:, 12:]).permute(1, 0, 2, 3).flatten(1)
    assert (values >= 0).all()
    assert torch.allclose(signed.cov(), torch.eye(12), atol=0.02)
    assert not any(parameter.requires_grad for parameter in layer.parameters())


def test_a_wider_convolution_starts_with_a_copy_of_its_input() -> None:
    layer = nn.Conv2d(3, 5, 3, padding=1, bias=False)
    before = layer.weight[3:].clone()
    start_as_identity(layer)
    images = torch.randn(2, 3, 6, 6)
    assert torch.equal(layer(images)[:, :3], images)
    assert torch.equal(layer.weight[3:], before)
