"""The embedded backend in a cluster: created, found, reached and removed by its labels."""
