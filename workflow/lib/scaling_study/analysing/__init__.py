"""From tables to intervals, laws, signatures, the recommendation."""
