"""From a study's file to a checked config, a plan and an estimate."""
