"""The sections of deployer.yaml: the settings of each, what they mean, and what is refused."""
