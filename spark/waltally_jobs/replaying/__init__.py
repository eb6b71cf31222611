"""The replay: the fact as of any position, from an archive alone."""
