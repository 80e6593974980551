"""Settings that differ between launches, each with its effect and its check."""
