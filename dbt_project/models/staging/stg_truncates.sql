{{ staged_truncates() }}
