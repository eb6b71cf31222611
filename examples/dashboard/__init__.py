"""A model that an application reads over HTTP."""
