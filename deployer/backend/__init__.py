"""The embedded W&B-compatible server: the default without a W&B account.

`server` is the process and its HTTP, `graphql` answers W&B's clients, `web` serves pages to users,
`scheduling` manages the lifecycle of runs and sweeps, `storage` stores bytes, `db` is the database.
It must not import the command line, executors or clients of other systems.
"""
