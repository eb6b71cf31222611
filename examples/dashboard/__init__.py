"""A fact that an application reads over HTTP."""
