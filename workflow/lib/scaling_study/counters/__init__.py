"""What is counted in members besides what every record has: a file for each counter."""
