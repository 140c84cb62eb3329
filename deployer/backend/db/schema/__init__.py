"""What the database looks like, and the way there from each older one."""
