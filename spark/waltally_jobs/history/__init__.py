"""Streams a table's changes into a lake."""
