"""Agents as Jobs in a Kubernetes cluster, and the objects that they need."""
