"""Faults by what they are of. Each kind is registered with its weight, by a decorator."""

from soak.faults import of_programs, of_servers, of_tables
from soak.faults.fault import BLOCKS_COMMITS, OF_SPARK, WEIGHTS, Fault

MODULES = (of_programs, of_servers, of_tables)
__all__ = ["BLOCKS_COMMITS", "MODULES", "OF_SPARK", "WEIGHTS", "Fault"]
