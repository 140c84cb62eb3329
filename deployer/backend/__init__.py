"""The embedded W&B-compatible server: the default where there is no W&B account.

`server` is the process and its HTTP, `graphql` answers W&B's clients, `web` shows pages to people,
`scheduling` decides what becomes of runs and sweeps, `storage` keeps bytes, `db` the database.
It must not import the command line, executors or clients of other systems.
"""
