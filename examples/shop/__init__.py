"""A shop: amounts by day and channel, from a table with names that need quotes."""
