"""Where agents run: this machine, a cluster, a GKE cluster; one interface, one registry.

It must not ask a W&B server, or print.
"""
