"""Notify: the shipped model, one by day, and services with their names."""
