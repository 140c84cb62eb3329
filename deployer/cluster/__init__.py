"""A Kubernetes cluster, as a place where agents run."""

from deployer.cluster.place import KubernetesPlace, open_cluster

__all__ = ["KubernetesPlace", "open_cluster"]
