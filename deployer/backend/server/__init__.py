"""The server process: HTTP, the file stream, start, stop and upkeep.

It must not hold SQL.
"""
