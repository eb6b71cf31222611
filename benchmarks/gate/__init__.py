"""Whether this code costs more than an earlier revision, as ratios of one run."""
