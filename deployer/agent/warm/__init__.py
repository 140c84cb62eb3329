"""Warm starts: each run is forked from a parent that has preloaded what the script imports.

* `parent` is the supervisor's side: it finds the packages to preload for the script, starts the
  parent process, or the agent as one that forks it, and puts the stand-in for `python` on the
  agent's PATH;
* `stand_in` runs instead of `python`: it asks the parent for a run, and ends like the run;
* `fork_server` preloads, checks that a fork is safe, and forks; `inherited` isolates the runs from
  resources that packages created; `program` turns the fork into the run; `ending` ends the run
  without writing to the pages that it shares with its parent;
* `sdk` does once what the SDK would do in each run, and shortens its waits.
"""
