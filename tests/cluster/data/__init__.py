"""Data sets and what runs keep, in a cluster."""
