"""Takes changes out of the log or an archive, in the one form that the database evaluates."""
