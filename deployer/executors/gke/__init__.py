"""Agents in a GKE cluster that we make: the Kubernetes executor, and what Google adds to it.

It must not print.
"""
