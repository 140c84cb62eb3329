"""Evaluate a ResNet-9 that the trainer kept, with nothing of the trainer's.

    python -m tests.recipes.evaluate best.pt FOLDER

The network is written out here once more, from the weights' names; the folder has CIFAR-10 in
torchvision's layout, which torchvision reads.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor
from torch.nn import functional
from torchvision import datasets, transforms

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def convolve(images: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    """Apply a convolution, its batch normalisation and ReLU."""
    images = functional.conv2d(images, weights[f"{name}.0.weight"], padding=1)
    norm = (weights[f"{name}.1.{part}"] for part in ("running_mean", "running_var"))
    affine = (weights[f"{name}.1.{part}"] for part in ("weight", "bias"))
    return functional.batch_norm(images, *norm, *affine).relu()


def classify(images: Tensor, weights: dict[str, Tensor]) -> Tensor:
    """Return the class of each image."""
    images = convolve(images, weights, "0")
    images = functional.max_pool2d(convolve(images, weights, "1"), 2)
    inner = convolve(images, weights, "3.branch.0")
    images = images + convolve(inner, weights, "3.branch.1")
    images = functional.max_pool2d(convolve(images, weights, "4"), 2)
    images = functional.max_pool2d(convolve(images, weights, "6"), 2)
    inner = convolve(images, weights, "8.branch.0")
    images = images + convolve(inner, weights, "8.branch.1")
    return (images.amax(dim=(2, 3)) @ weights["12.weight"].T).argmax(dim=1)


def read_test_images(folder: str) -> tuple[Tensor, Tensor]:
    """Read the normalised test images and their classes, without the check of all files' sums."""
    normalise = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)])

    class Unchecked(datasets.CIFAR10):  # type: ignore[misc]
        """The test images; the training images may be a part of the original's."""

        train_list = ()
        test_list = (("test_batch", None),)

        def _load_meta(self) -> None:
            """Leave out the names of the classes."""

    images = Unchecked(folder, train=False, transform=normalise)
    pairs = [images[index] for index in range(len(images))]
    return torch.stack([image for image, _ in pairs]), torch.tensor([label for _, label in pairs])


def main() -> None:
    """Print the share of test images that are classified right."""
    state = torch.load(sys.argv[1], weights_only=True)
    images, labels = read_test_images(sys.argv[2])
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, state["hyperparameters"]["amp"]):
        right = classify(images, state["model"]) == labels
    sys.stdout.write(f"{right.float().mean().item()}\n")


if __name__ == "__main__":
    main()
