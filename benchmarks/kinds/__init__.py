"""What each kind of measure, dimension and roll-up costs, per change."""
