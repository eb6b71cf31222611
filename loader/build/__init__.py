"""Applies the dbt models after each staged batch: by dbt, then by what dbt has executed."""
