"""The causes that are looked for, by theme; `cause_table` lists them all."""
