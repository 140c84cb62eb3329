"""The web pages: a log-in, and live pages of projects, sweeps and runs.

`summaries` turns rows into plain dicts, `routes` serves them as JSON beside one HTML shell, and
`static` draws. Nothing here writes to the database, and no page holds data that a user chose:
JavaScript puts it in as text.
"""
