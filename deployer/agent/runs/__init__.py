"""An agent's runs: their output and files, their ends, and delivery to the server."""
