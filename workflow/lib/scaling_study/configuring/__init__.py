"""From a YAML file to a checked config."""
