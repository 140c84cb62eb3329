"""Warm starts: a run is forked from a parent that has imported what runs import.

A run writes the list of its imports (`prologue/deployer_imports.py`), the supervisor starts the
parent (`parent`, with the programs of `parent_code`); from there on:

* `lists`: the files in which runs say what they import, and the parent what it leaves out, and why;
* `sharing`: an agent and its parent import the SDK once; `likely`: what a first run will import;
* `gathering`, `imports`: the parent imports what is `examined`, while `audit` watches what
  that draws and reads, and `state` what it changes;
* `stand_in`: what an agent starts instead of `python`, a script of its own; it asks for a run;
* `forking`: the parent puts its modules away, and forks each run;
* `program`, `repairs`: a fork becomes the run, and does anew what no two runs may share; `ending`:
  at its end it leaves alone what it shares with its parent;
* `registered`: loggers and exit handlers of imports wait until a run imports the same;
* `handover`: a run is given each module as it asks for it; `start_over`: or begins without a
  parent, also where it has `replaced` what a module would have kept;
* `core_wait`, `package_metadata`: what every run would otherwise wait for, or read again.

Nothing of it may be in a run's `sys.modules`.
"""
