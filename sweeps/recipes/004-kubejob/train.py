"""Cats or dogs? A small network on Microsoft's pictures, unpacked: PetImages/Cat, PetImages/Dog."""

import argparse
import json
import os
from pathlib import Path

import torch
import wandb
from torch import nn
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
def test(network: nn.Module, pictures: Dataset[tuple[torch.Tensor, int]], device: str) -> float:
    """Return the accuracy on pictures that were not trained on."""
    network.eval()
    batches = [
        (network(images.to(device)).argmax(1).cpu() == kinds).float()
        for images, kinds in DataLoader(pictures, batch_size=500)
    ]
    return float(torch.cat(batches).mean())


def main() -> None:
    """Train, log each epoch, and keep the model and its numbers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=5)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    data, outputs = (Path(os.environ[f"DEPLOYER_{name}_DIR"]) for name in ("DATA", "OUTPUT"))
    pictures = datasets.ImageFolder(str(data / "PetImages"), CONVERT, is_valid_file=is_whole)
    training, tests = random_split(pictures, [0.8, 0.2])  # the archive has no test set of its own
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with wandb.init(config=vars(arguments)) as run:
        network = build_network().to(device)
        optimizer = torch.optim.Adam(network.parameters(), lr=arguments.learning_rate)
        for _ in range(arguments.epochs):
            network.train()
            for images, kinds in DataLoader(training, batch_size=64, shuffle=True):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(network(images.to(device)), kinds.to(device))
                loss.backward()
                optimizer.step()
            accuracy = test(network, tests, device)
            run.log({"loss": loss.item(), "accuracy": accuracy})
        torch.save(network.state_dict(), outputs / "classification.pth")
        (outputs / "classification.json").write_text(json.dumps({"accuracy": accuracy}))


if __name__ == "__main__":
    main()
