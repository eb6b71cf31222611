"""Reads a fact from the warehouse: its rows, watermark and position, and the loader's progress."""
