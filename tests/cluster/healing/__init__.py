"""What becomes of runs when pods, nodes and servers die."""
