"""Cats or dogs? As the article trains it: parameters in the environment, Keras's lines, no W&B.

A small network on Microsoft's pictures, unpacked: PetImages/Cat, PetImages/Dog. PyTorch in place of
TensorFlow; the pictures are where the article's script unpacks them, but nothing talks to S3.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, random_split
from torchvision import datasets, transforms

SIZE = 32
CONVERT = transforms.Compose(
    [transforms.Resize((SIZE, SIZE)), transforms.ToTensor(), transforms.Normalize(0.5, 0.25)]
)


def build_network() -> nn.Sequential:
    """Return three convolutions and a linear layer."""
    return nn.Sequential(
        *(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(64 * (SIZE // 8) ** 2, 2)),
    )


def is_whole(path: str) -> bool:
    """Return False for the pictures of the archive that are damaged: they lack JPEG's mark."""
    with open(path, "rb") as file:
        return b"JFIF" in file.read(10)


@torch.no_grad()
def test(network: nn.Module, pictures: Dataset[tuple[Tensor, int]], device: str) -> float:
    """Return the accuracy on pictures that were not trained on."""
    network.eval()
    batches = [
        (network(images.to(device)).argmax(1).cpu() == kinds).float()
        for images, kinds in DataLoader(pictures, batch_size=500)
    ]
    return float(torch.cat(batches).mean())


def train(network: nn.Module, epochs: int, rate: float, folder: Path) -> Iterator[dict[str, float]]:
    """Train a network on a folder's pictures, and yield each epoch's numbers."""
    pictures = datasets.ImageFolder(str(folder / "PetImages"), CONVERT, is_valid_file=is_whole)
    training, tests = random_split(pictures, [0.8, 0.2])  # the archive has no test set of its own
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network.to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=rate)
    batches = DataLoader(training, batch_size=64, shuffle=True)
    for _ in range(epochs):
        network.train()
        for step, (images, kinds) in enumerate(batches, 1):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(images.to(device)), kinds.to(device))
            loss.backward()
            optimizer.step()
            print(f"\r{step}/{len(batches)} - loss: {loss.item():.4f}", end="", flush=True)
        accuracy = test(network, tests, device)
        print(f" - val_accuracy: {accuracy:.4f}", flush=True)
        yield {"loss": loss.item(), "accuracy": accuracy}


if __name__ == "__main__":
    torch.manual_seed(1)
    model = build_network()
    history = list(train(model, int(os.environ.get("EPOCHS", "1")), 1e-3, Path()))
    torch.save(model.state_dict(), "catdogclassification.pth")
    Path("catdogclassification.json").write_text(json.dumps(history))
