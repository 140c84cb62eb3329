"""`deployer sweep`: make, check, show, import, export and control sweeps."""
