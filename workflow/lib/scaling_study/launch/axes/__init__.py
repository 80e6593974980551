"""What can differ between launches, each with how it is made true and how it is read back."""
