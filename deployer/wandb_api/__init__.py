"""The client of a W&B server: the only place where W&B's names are translated to ours."""
