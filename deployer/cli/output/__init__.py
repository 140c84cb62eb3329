"""Show things: the only place that prints.

It must not know servers and clusters, or decide.
"""
