"""The embedded W&B-compatible server: the default where there is no W&B account.

Rooms: `schema.graphql` says what can be asked; `handlers` answer; `store`, `accounts`, `projects`,
`sweeps`, `agents`, `runs`, `lines` and `files` own the database; `dispatch` and `lifecycle` decide
what an agent does next; `search` proposes configurations; `pages` shows them; `daemon` starts and
stops the whole. Nothing here imports the command line.
"""
