"""User configuration: deployer.yaml, flags, environment, credentials, paths; locates errors.

It must not contact anything.
"""
