"""The only door to a W&B server: W&B's names become ours here and nowhere else."""
