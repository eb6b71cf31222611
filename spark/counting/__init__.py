"""Counts a table as of one snapshot: ranges of pages, visibility, groups."""
