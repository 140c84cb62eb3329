"""Secrets with the keys of W&B."""
