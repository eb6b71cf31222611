"""Applies the dbt models after each staged batch."""
