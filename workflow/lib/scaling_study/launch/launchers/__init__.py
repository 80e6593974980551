"""How the processes of a launch are started."""
