"""Whether a build costs more as the log, the fact and the partitions grow."""
