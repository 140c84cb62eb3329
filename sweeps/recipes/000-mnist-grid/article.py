"""MNIST by a small network, as the article trains it: JOB_ID, hyperparams.yml, and printed numbers.

In the way of https://github.com/EdinburghNLP/eidf-epcc-cluster; nothing here knows W&B.
"""

import os
from collections.abc import Iterator

import torch
import yaml
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

EPOCHS = 1


def get_hyperparameters(job_id: int) -> dict[str, int]:
    """Return the set of one job, which are counted from 1."""
    with open("hyperparams.yml") as stream:
        sets = yaml.safe_load(stream)
    found: dict[str, int] = sets[job_id - 1]["hyperparam_set"]
    return found


def build_network() -> nn.Sequential:
    """Return two convolutions and two linear layers."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(1152, 64), nn.ReLU(), nn.Linear(64, 10)),
    )


def load(folder: str, train: bool, batch_size: int) -> DataLoader[tuple[Tensor, Tensor]]:
    """Return batches of the training or the test images, downloaded if they are not there."""
    convert = transforms.Compose([transforms.ToTensor(), transforms.Normalize(0.1307, 0.3081)])
    images = datasets.MNIST(folder, train=train, download=True, transform=convert)
    return DataLoader(images, batch_size, shuffle=train)


@torch.no_grad()
def test(network: nn.Module, device: str, folder: str) -> tuple[float, float]:
    """Return loss and accuracy on the test images."""
    network.eval()
    loss, right, seen = 0.0, 0, 0
    for images, labels in load(folder, train=False, batch_size=1000):
        output = network(images.to(device))
        labels = labels.to(device)
        loss += float(functional.cross_entropy(output, labels, reduction="sum"))
        right += int((output.argmax(1) == labels).sum())
        seen += len(labels)
    return loss / seen, right / seen


def train(job_id: int, folder: str) -> Iterator[dict[str, float]]:
    """Train on the images in a folder with the set of a job; yield each epoch's numbers."""
    hyperparameters = get_hyperparameters(job_id)
    print(f"job {job_id}: {hyperparameters}", flush=True)
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = build_network().to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.002)
    for _ in range(EPOCHS):
        network.train()
        for images, labels in load(folder, True, hyperparameters["batch_size"]):
            optimizer.zero_grad()
            functional.cross_entropy(network(images.to(device)), labels.to(device)).backward()
            optimizer.step()
        loss, accuracy = test(network, device, folder)
        print(f"Test set: Average loss: {loss:.4f}, Accuracy: {accuracy:.4f}", flush=True)
        yield {"test_loss": loss, "test_accuracy": accuracy}


if __name__ == "__main__":
    list(train(int(os.environ["JOB_ID"]), "data"))
