"""The accuracy of a kept mlp on the digits' test images, computed without the trainer's code.

    python -m tests.cli.digits_accuracy best.pt

Reads the weights alone: two hidden layers with batch normalisation, then one layer.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from sklearn.datasets import load_digits

TRAINING_IMAGES = 1437
MEAN, DEVIATION = 0.3053, 0.3760  # of the training pixels, between 0 and 1
EPSILON = 1e-5  # of torch's batch normalisation


def main(path: str) -> None:
    """Print the share of right answers."""
    kept = torch.load(path, weights_only=True)
    weights = {name: value.double().numpy() for name, value in kept["model"].items()}
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0)).numpy()
    chosen = order[TRAINING_IMAGES:]
    values = (np.round(images[chosen] * 255 / 16) / 255 - MEAN) / DEVIATION
    for layer in ("1", "2"):
        values = values @ weights[f"{layer}.0.weight"].T
        spread = np.sqrt(weights[f"{layer}.1.running_var"] + EPSILON)
        values = (values - weights[f"{layer}.1.running_mean"]) / spread
        values = values * weights[f"{layer}.1.weight"] + weights[f"{layer}.1.bias"]
        values = np.maximum(values, 0)
    logits = values @ weights["4.weight"].T + weights["4.bias"]
    sys.stdout.write(f"{np.mean(logits.argmax(axis=1) == labels[chosen])}\n")


if __name__ == "__main__":
    main(sys.argv[1])
