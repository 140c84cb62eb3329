"""A small network on scikit-learn's 8x8 digits: argparse, `wandb.init`, a model in a file.

Needs scikit-learn and wandb, and no download: `python train.py --learning_rate 0.1`, or a sweep of
`sweep.yaml`, by `wandb sweep` and `wandb agent` or by `deployer up`.
"""

import argparse
import os
import pickle
from pathlib import Path

import numpy as np
import wandb
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--optimizer", choices=["sgd", "adam"], default="adam")
parser.add_argument("--learning_rate", type=float, default=0.01)
parser.add_argument("--batch_size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=10)
args = parser.parse_args()

images, labels = load_digits(return_X_y=True)
parts = train_test_split(images / 16, labels, test_size=0.2, random_state=0, stratify=labels)
train_images, val_images, train_labels, val_labels = parts
model = MLPClassifier(
    hidden_layer_sizes=(64,),
    solver=args.optimizer,
    learning_rate_init=args.learning_rate,
    batch_size=args.batch_size,
    random_state=0,
)
with wandb.init(config=vars(args)) as run:
    for epoch in range(1, args.epochs + 1):
        model.partial_fit(train_images, train_labels, classes=np.unique(labels))
        loss = log_loss(val_labels, model.predict_proba(val_images))
        accuracy = model.score(val_images, val_labels)
        run.log({"epoch": epoch, "val_loss": loss, "val_accuracy": accuracy})
    # A folder of the run's own, from which `deployer results get` copies.
    folder = Path(os.environ.get("DEPLOYER_OUTPUT_DIR", "."))
    (folder / "model.pkl").write_bytes(pickle.dumps(model))
