"""MNIST with a small network, in the shape of pytorch/examples, logged to Weights & Biases.

Needs torch, torchvision and wandb, and knows nothing of what starts it: `python main.py --lr 0.5`,
or a sweep of `sweep.yaml`, by `wandb sweep` and `wandb agent` or by `deployer up`.
"""

import argparse

import torch
import wandb
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Adadelta
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

Batches = DataLoader[tuple[Tensor, Tensor]]


class Net(nn.Module):
    """Two convolutions and two linear layers."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3)
        self.conv2 = nn.Conv2d(16, 32, 3, stride=2)
        self.dropout = nn.Dropout(dropout)
        self.fc1 = nn.Linear(32 * 6 * 6, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logarithm of each class's probability."""
        hidden = functional.relu(self.conv1(images))
        hidden = functional.max_pool2d(functional.relu(self.conv2(hidden)), 2)
        hidden = functional.relu(self.fc1(self.dropout(torch.flatten(hidden, 1))))
        return functional.log_softmax(self.fc2(hidden), dim=1)


def train(
    args: argparse.Namespace,
    model: Net,
    device: torch.device,
    batches: Batches,
    epoch: int,
    optimizer: Adadelta,
) -> None:
    """Train once over the images."""
    model.train()
    for index, (images, labels) in enumerate(batches):
        optimizer.zero_grad()
        loss = functional.nll_loss(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        if index % args.log_interval == 0:
            wandb.log({"epoch": epoch, "train_loss": loss.item()})
            print(
                f"epoch {epoch}, batch {index}/{len(batches)}: loss {loss.item():.4f}", flush=True
            )
        if args.dry_run:
            break


@torch.no_grad()
def test(model: Net, device: torch.device, batches: Batches, epoch: int) -> None:
    """Log loss and accuracy on the test images."""
    model.eval()
    loss, correct, count = 0.0, 0, 0
    for images, labels in batches:
        output, labels = model(images.to(device)), labels.to(device)
        loss += functional.nll_loss(output, labels, reduction="sum").item()
        correct += int((output.argmax(dim=1) == labels).sum().item())
        count += len(labels)
    wandb.log({"epoch": epoch, "test_loss": loss / count, "test_accuracy": correct / count})
    print(
        f"epoch {epoch}: test loss {loss / count:.4f}, accuracy {correct / count:.4f}", flush=True
    )


def parse_args() -> argparse.Namespace:
    """Read the command line; a sweep's parameters have the names of these flags."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--data", default="data", metavar="DIR", help="where MNIST is kept")
    add("--batch-size", type=int, default=64, metavar="N", help="images of a training step")
    add("--test-batch-size", type=int, default=1000, metavar="N", help="images of a test step")
    add("--epochs", type=int, default=2, metavar="N", help="passes over the training images")
    add("--lr", type=float, default=1.0, metavar="LR", help="Adadelta's learning rate")
    add("--gamma", type=float, default=0.7, metavar="M", help="its factor after each epoch")
    add("--dropout", type=float, default=0.25, metavar="P", help="before the linear layers")
    add("--seed", type=int, default=1, metavar="S", help="of everything random")
    add(
        "--log-interval", type=int, default=100, metavar="N", help="steps between two logged losses"
    )
    add("--dry-run", action="store_true", help="one step of each epoch only")
    add("--save-model", action="store_true", help="write mnist.pt in the end")
    return parser.parse_args()


def main() -> None:
    """Train and test once for each epoch."""
    args = parse_args()
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize(0.1307, 0.3081)])
    train_images = datasets.MNIST(args.data, train=True, download=True, transform=transform)
    test_images = datasets.MNIST(args.data, train=False, transform=transform)
    train_batches = DataLoader(train_images, args.batch_size, shuffle=True)
    test_batches = DataLoader(test_images, args.test_batch_size)
    with wandb.init(config=vars(args)):
        model = Net(args.dropout).to(device)
        optimizer = Adadelta(model.parameters(), lr=args.lr)
        scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
        for epoch in range(1, args.epochs + 1):
            train(args, model, device, train_batches, epoch, optimizer)
            test(model, device, test_batches, epoch)
            scheduler.step()
        if args.save_model:
            torch.save(model.state_dict(), "mnist.pt")


if __name__ == "__main__":
    main()
