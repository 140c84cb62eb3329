"""The programs, processes and nodes of a real Kubernetes; tests use `tests.cluster.cluster`."""
