"""Why an agent's pod does not run: in one line, with a remedy, and whether it passes."""
