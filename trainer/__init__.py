"""A small PyTorch trainer whose every hyperparameter is a flag: `python -m trainer --help`."""
