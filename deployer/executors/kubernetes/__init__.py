"""Agents as Jobs in a Kubernetes cluster, and what they need there."""
