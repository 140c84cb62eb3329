"""The client of Kubernetes: plain dicts in and out, every failure as one `KubeError`.

Importing it imports the Kubernetes client, a third of a second: do so where it is used.
"""
