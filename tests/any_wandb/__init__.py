"""What we claim of a sweep, shown on any W&B server: `make test-wandb URL=https://…`.

The tests here are collected only when a server is named, which `python -m tests.any_wandb` does.
"""
