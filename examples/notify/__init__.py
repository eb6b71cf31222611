"""Notify: the shipped fact and one by day."""
