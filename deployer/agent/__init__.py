"""The supervisor around one real `wandb agent`.

Standard library only and Python 3.8 or newer: the same files run here and inside any image.
Nothing in this package imports the rest of `deployer`.
"""
