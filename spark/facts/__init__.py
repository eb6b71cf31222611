"""A fact as the warehouse holds it, and the change log that leads on from it."""
