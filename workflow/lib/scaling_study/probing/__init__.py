"""What this machine is, has and allows."""
