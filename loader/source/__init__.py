"""What a source is: server, slot, tables; what is wrong with them, and the remedies."""
