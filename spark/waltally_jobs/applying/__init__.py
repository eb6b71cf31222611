"""Applies the change log to the facts that declare `engine='spark'`."""
