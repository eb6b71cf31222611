"""Many facts on one log: what an apply costs per change."""
