"""A cluster of ours: made, completed, deleted, and the way to its Kubernetes.

It must not print.
"""
