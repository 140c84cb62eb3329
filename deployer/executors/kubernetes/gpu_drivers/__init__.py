"""GPU drivers of a cluster's nodes: what is there, what is missing, and its installation."""
