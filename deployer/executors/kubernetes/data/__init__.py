"""Data in a cluster: the loader pod, a volume as a store of files, claims and mounts."""
