"""From experiments to causes."""
