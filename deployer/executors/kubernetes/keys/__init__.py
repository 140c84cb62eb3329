"""The keys of W&B in a cluster: the Secrets that hold them, and their rotation."""
