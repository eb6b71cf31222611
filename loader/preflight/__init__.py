"""What must be true of source, slot and tables before waltally may follow them, and set-up."""
