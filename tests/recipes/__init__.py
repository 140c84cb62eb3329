"""The recipes of sweeps/recipes/: their READMEs' own commands, run in a copy of the recipe."""
