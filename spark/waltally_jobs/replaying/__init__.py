"""The replay: the model as of any position, from an archive alone."""
