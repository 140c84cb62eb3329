"""Many agents at one backend, in true time, by the protocol that W&B's own speak."""
