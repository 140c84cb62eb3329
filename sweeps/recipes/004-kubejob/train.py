"""The article's training, logged to W&B, with flags for the sweep."""

import argparse
import json
import os
from pathlib import Path

import torch
import wandb
from image_classification_single import build_network, train

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=5)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    data, outputs = (Path(os.environ[f"DEPLOYER_{name}_DIR"]) for name in ("DATA", "OUTPUT"))
    with wandb.init(config=vars(arguments)) as run:
        network = build_network()
        for row in train(network, arguments.epochs, arguments.learning_rate, data):
            run.log(row)
        torch.save(network.state_dict(), outputs / "classification.pth")
        (outputs / "classification.json").write_text(json.dumps(row))
