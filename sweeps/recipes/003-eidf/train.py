"""Fashion-MNIST by PyTorch's quickstart network; `--seed` tells one repetition from another.

Source: https://pytorch.org/tutorials/beginner/basics/quickstart_tutorial.html
"""

import argparse
import os
from pathlib import Path

import torch
import wandb
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets
from torchvision.transforms import ToTensor


def build_network() -> nn.Sequential:
    """Return three linear layers."""
    return nn.Sequential(
        *(nn.Flatten(), nn.Linear(28 * 28, 512), nn.ReLU()),
        *(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)),
    )


def load(train: bool) -> datasets.FashionMNIST:
    """Return the training or the test images from the volume."""
    return datasets.FashionMNIST(os.environ["DEPLOYER_DATA_DIR"], train, transform=ToTensor())


@torch.no_grad()
def test(network: nn.Module, device: str) -> float:
    """Return the accuracy on the test images."""
    network.eval()
    batches = [
        (network(images.to(device)).argmax(1).cpu() == labels).float()
        for images, labels in DataLoader(load(train=False), batch_size=1000)
    ]
    return float(torch.cat(batches).mean())


def main() -> None:
    """Train for some epochs, log each, and keep the model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=5)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with wandb.init(config=vars(arguments)) as run:
        network = build_network().to(device)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for _ in range(arguments.epochs):
            network.train()
            for images, labels in DataLoader(load(train=True), batch_size=64, shuffle=True):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(network(images.to(device)), labels.to(device))
                loss.backward()
                optimizer.step()
            run.log({"loss": loss.item(), "accuracy": test(network, device)})
        torch.save(network.state_dict(), Path(os.environ["DEPLOYER_OUTPUT_DIR"]) / "model.pth")


if __name__ == "__main__":
    main()
