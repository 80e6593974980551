"""The causes that are looked for, by theme; `verdict` has them in order."""
