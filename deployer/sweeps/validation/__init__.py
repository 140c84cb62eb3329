"""What is wrong or doubtful in a sweep's configuration: a module for each noun; pure.

`configuration` is the whole of it, `keys` the table that checks and the editors' schema are made
from. Keys and values are those of W&B's own schema (`config/schema.json` of its package `sweeps`,
0.3.0). An error is what cannot run or never ends; everything else W&B runs too, so it is a warning.
"""
