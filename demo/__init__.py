"""A private PostgreSQL server with a Notify-like source, for the demo and for the tests."""
