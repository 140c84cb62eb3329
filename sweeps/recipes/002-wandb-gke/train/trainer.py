"""A network of one hidden layer on scikit-learn's digits; each epoch is logged to W&B."""

import argparse

import torch
import wandb
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

OPTIMIZERS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
BATCH = 32


def load(device: str) -> list[Tensor]:
    """Return images and labels to train with, then those to test with."""
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(images / 16, labels, test_size=0.2, random_state=0, stratify=labels)
    train_images, test_images = (torch.tensor(part, dtype=torch.float32) for part in parts[:2])
    train_labels, test_labels = map(torch.tensor, parts[2:])
    tensors = (train_images, train_labels, test_images, test_labels)
    return [tensor.to(device) for tensor in tensors]


def main() -> None:
    """Train with the hyperparameters of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--learning_rate", type=float, default=0.01)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adam")
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    images, labels, test_images, test_labels = load(device)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    optimizer = OPTIMIZERS[args.optimizer](model.parameters(), lr=args.learning_rate)
    loss_of = nn.CrossEntropyLoss()
    with wandb.init(config=vars(args)) as run:
        for epoch in range(1, args.epochs + 1):
            for chosen in torch.randperm(len(labels), device=device).split(BATCH):
                optimizer.zero_grad()
                loss_of(model(images[chosen]), labels[chosen]).backward()
                optimizer.step()
            with torch.no_grad():
                output = model(test_images)
            val_loss = loss_of(output, test_labels).item()
            accuracy = (output.argmax(dim=1) == test_labels).float().mean().item()
            run.log({"epoch": epoch, "val_loss": val_loss, "val_accuracy": accuracy})
            print(
                f"epoch {epoch}: val_loss {val_loss:.4f}, val_accuracy {accuracy:.4f}", flush=True
            )


if __name__ == "__main__":
    main()
