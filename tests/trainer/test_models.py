"""The networks: sizes that are known from elsewhere, and logits for every kind of image."""

from __future__ import annotations

import pytest
import torch

from trainer.models import build_model, count_parameters

SHAPES = [(1, 8, 8), (1, 28, 28), (3, 32, 32)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["mlp", "cnn", "resnet9"])
@pytest.mark.parametrize("batch_norm", [True, False])
def test_logits_and_gradients_for_every_image_size(
    name: str, shape: tuple[int, int, int], batch_norm: bool
) -> None:
    model = build_model(name, shape, 10, width=4, dropout=0.1, batch_norm=batch_norm)
    logits = model(torch.randn(2, *shape))
    assert logits.shape == (2, 10)
    logits.logsumexp(dim=1).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize(("width", "parameters"), [(64, 6_573_120), (8, 103_944)])
def test_resnet9_is_as_large_as_the_original(width: int, parameters: int) -> None:
    model = build_model("resnet9", (3, 32, 32), 10, width=width, dropout=0.0, batch_norm=True)
    assert count_parameters(model) == parameters
