"""Notify: the shipped fact, one by day, and services with their names."""
