"""What each supported SDK asks of the server, recorded: `python -m tests.contract --help`."""
