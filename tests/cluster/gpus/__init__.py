"""GPUs: drivers, and who uses which."""
