{{ staged_changes() }}
