"""A sweep: its file and parameters, making it, its results, the recount, running again what is
missing.

It must not know where agents run, or print.
"""
