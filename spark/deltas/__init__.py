"""The delta rules over DataFrames of changes: replay, audit and seeds of an archive."""
