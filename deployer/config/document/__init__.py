"""A YAML file whose values know their places, and what is wrong with them there."""
