"""Knows no W&B: prints name=value, and deployer.yaml beside it says that these are metrics."""

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
loss = 1.0
for epoch in range(10):
    loss *= 1 - parser.parse_args().lr
    print(f"epoch={epoch} loss={loss:.4f}")
