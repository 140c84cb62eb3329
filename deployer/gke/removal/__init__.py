"""Finds and removes all that a cluster leaves in the cloud, with proof.

It must not print.
"""
