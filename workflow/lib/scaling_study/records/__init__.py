"""The records of a study: a type for each, with the unit, meaning and source of every field."""
