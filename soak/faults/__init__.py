"""Faults by what they are of. Each kind is registered with its weight, by a decorator."""

from soak.faults import of_programs, of_servers, of_tables  # noqa: F401  they register theirs
from soak.faults.fault import BLOCKS_COMMITS, OF_SPARK, WEIGHTS, Fault

__all__ = ["BLOCKS_COMMITS", "OF_SPARK", "WEIGHTS", "Fault"]
