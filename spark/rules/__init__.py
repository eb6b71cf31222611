"""The delta rules as plain functions: a change in, signed rows of a fact out. Pure.

No Spark and no driver: they run in a task over Arrow batches, in the driver for few changes, and in
a test at thousands of cases a second. The dbt package has the same rules in SQL, and both pass the
same cases.
"""
