"""Everything that a user sets: deployer.yaml, flags, environment, credentials, paths, each problem
at its place.

It must not contact anything.
"""
