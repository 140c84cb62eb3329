"""`deployer backend`: the embedded server, on this machine or in a cluster, and its users."""
