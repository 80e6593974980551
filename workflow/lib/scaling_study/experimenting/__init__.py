"""Changing one thing at a time: the experiments on causes."""
