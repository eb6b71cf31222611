"""Measurements, each against a baseline in the same run; figures for the docs."""
