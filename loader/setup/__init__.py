"""`loader setup` and `loader teardown`: manifest, registration, slot; `loader init`: a project."""
