"""All that a cluster leaves in the cloud, found and removed, with the proof.

It must not print.
"""
