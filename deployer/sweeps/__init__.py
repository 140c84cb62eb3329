"""A sweep: its file and parameters, creation, results, recount, and running again what is missing.

It must not know where agents run, or print.
"""
