"""From records to tables, and from tables to rates, laws and the recommendation."""
