"""The lock file: what a sweep ran, written beside its file, and read to run it again.

It holds references to Secrets and never their values.
"""
