"""The recommended launch and the default one, run as a user would run them."""
