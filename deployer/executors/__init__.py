"""Where agents run: local, a cluster, a GKE cluster; one interface, one registry.

It must not contact a W&B server, or print.
"""
