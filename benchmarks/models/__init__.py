"""Many models on one log: what an apply costs per change."""
