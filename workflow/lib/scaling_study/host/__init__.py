"""What the machine is, has, allows and counts."""
