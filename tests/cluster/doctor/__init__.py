"""What `doctor` says of a cluster, and who may do what."""
