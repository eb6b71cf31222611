"""From raw JSON to the merged fact: CPU per change."""
