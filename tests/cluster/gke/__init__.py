"""Clusters that are made and removed on GKE."""
