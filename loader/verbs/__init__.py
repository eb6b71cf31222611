"""The verbs of `loader`, one a file; `loader.cli` puts them together."""
