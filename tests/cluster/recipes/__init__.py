"""The shipped recipes on a cluster."""
