"""Time entries: hours per project, from two databases into one warehouse."""
