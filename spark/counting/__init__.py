"""Counts tables as of one snapshot: checks, ranges of pages, visibility, groups."""
