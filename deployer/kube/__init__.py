"""The client of Kubernetes: plain dicts in and out, every failure as one `KubeError`.

Importing it imports the Kubernetes client, which takes a third of a second: import it lazily.
"""
