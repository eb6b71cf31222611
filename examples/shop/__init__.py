"""A shop: amounts by day and channel, parcels by region; its names need quotes."""
