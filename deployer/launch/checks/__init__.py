"""What is refused or doubtful, before anything is made: for `up`, `doctor` and `sweep check`."""
