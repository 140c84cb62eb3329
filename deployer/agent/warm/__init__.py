"""Warm starts: each run is forked from a parent that has preloaded what the script imports.

* `parent` is the supervisor's side: it reads which of the named packages the script imports, starts
  the parent process and puts the stand-in for `python` on the agent's PATH;
* `stand_in` runs instead of `python`: it asks the parent for a run, and ends as the run ends;
* `fork_server` preloads, checks that a fork is safe, and forks; `inherited` keeps what packages
  made meanwhile apart from the runs; `program` turns the fork into the run; `ending` ends the run
  without writing to the pages that it shares with its parent;
* `core_wait` saves each run a wait for its wandb-core.
"""
