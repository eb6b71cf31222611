"""A source that has standbys, or was one: its timelines, its copies of the slot, their names.

`findings` judges, `actions` asks and writes. Everything else calls these two alone.
"""
