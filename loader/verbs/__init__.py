"""The verbs of `loader`, one per file; `loader.cli` puts them together.

A verb's file declares its flags at the top and imports what it does in its function: each start of
the loader, help and completion too, reads all the flags, and only what one verb needs besides.
"""
