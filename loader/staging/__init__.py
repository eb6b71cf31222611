"""The tables in the target: change log, position, watermarks, retention."""
