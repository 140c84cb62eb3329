"""The SQLite file: one module a table.

It must not decide, or know HTTP.
"""
