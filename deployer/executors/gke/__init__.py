"""Agents in a GKE cluster of ours: the Kubernetes executor, and Google's additions.

It must not print.
"""
