"""Builds Kubernetes manifests from a plan: templates in k8s/*.yaml, filled by Python."""
