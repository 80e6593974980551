"""What experiments and counts say of a share: the parts that causes are made of."""
