"""The tutorial's training, logged to W&B; `--seed` tells one repetition from another."""

import argparse
import os
from pathlib import Path

import torch
import wandb
from example_pytorch_code import build_network, train

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=5)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    with wandb.init(config=vars(arguments)) as run:
        network = build_network()
        for row in train(network, arguments.epochs, os.environ["DEPLOYER_DATA_DIR"]):
            run.log(row)
        torch.save(network.state_dict(), Path(os.environ["DEPLOYER_OUTPUT_DIR"]) / "model.pth")
