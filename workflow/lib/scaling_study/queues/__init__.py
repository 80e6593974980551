"""What runs in users' shells: slots with their CPUs, lists of models, servers that fork models."""
