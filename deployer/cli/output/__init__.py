"""Output: the only package that prints.

It must not know servers and clusters, or decide.
"""
