"""The embedded backend in and for a cluster."""
