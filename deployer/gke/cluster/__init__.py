"""One of our clusters: creation, completion, deletion, access to its Kubernetes.

It must not print.
"""
