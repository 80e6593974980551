"""What runs inside a member: it imports torch and the standard library, nothing else."""
