"""The client of a W&B server: W&B's names become ours here and nowhere else."""
