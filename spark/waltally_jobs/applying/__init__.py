"""Applies the change log to the models that declare `engine='spark'`."""
