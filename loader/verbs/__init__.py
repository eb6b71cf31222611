"""The verbs of `loader`, one per file; `loader.cli` puts them together."""
