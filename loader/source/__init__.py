"""Server, slot and tables of a source: records, rules over them, and remedies."""
