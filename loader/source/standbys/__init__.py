"""A source that is a standby or has some: its timelines, its copies of slots, its names.

`findings` judges, `actions` asks and writes. Everything else calls these two alone.
"""
