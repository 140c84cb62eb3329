"""A Kubernetes cluster, as a place where agents run."""
