"""Fashion-MNIST by PyTorch's quickstart network, as the tutorial trains it: no flags, no W&B.

It reads the images in ./data, prints its numbers and leaves ./model.pth.
Source: https://pytorch.org/tutorials/beginner/basics/quickstart_tutorial.html
"""

from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets
from torchvision.transforms import ToTensor

EPOCHS = 5


def build_network() -> nn.Sequential:
    """Return three linear layers."""
    return nn.Sequential(
        *(nn.Flatten(), nn.Linear(28 * 28, 512), nn.ReLU()),
        *(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)),
    )


@torch.no_grad()
def test(network: nn.Module, device: str, folder: str) -> tuple[float, float]:
    """Return loss and accuracy on the test images."""
    network.eval()
    images = datasets.FashionMNIST(folder, train=False, transform=ToTensor())
    loss, right = 0.0, 0
    for inputs, labels in DataLoader(images, batch_size=1000):
        output = network(inputs.to(device)).cpu()
        loss += float(nn.functional.cross_entropy(output, labels, reduction="sum"))
        right += int((output.argmax(1) == labels).sum())
    return loss / len(images), right / len(images)


def train(network: nn.Module, epochs: int, folder: str) -> Iterator[dict[str, float]]:
    """Train a network on the images in a folder, and yield each epoch's numbers."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network.to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    images = datasets.FashionMNIST(folder, train=True, transform=ToTensor())
    for epoch in range(epochs):
        network.train()
        for inputs, labels in DataLoader(images, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(inputs.to(device)), labels.to(device)).backward()
            optimizer.step()
        loss, accuracy = test(network, device, folder)
        print(f"Epoch {epoch + 1}\n-------------------------------\nTest Error:")
        print(f" Accuracy: {accuracy:.1%}, Avg loss: {loss:>8f}", flush=True)
        yield {"loss": loss, "accuracy": accuracy}


if __name__ == "__main__":
    model = build_network()
    list(train(model, EPOCHS, "data"))
    torch.save(model.state_dict(), "model.pth")
    print("Saved PyTorch Model State to model.pth")
