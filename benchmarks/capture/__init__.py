"""From the slot to the durable change log: the loader beside other ways."""
