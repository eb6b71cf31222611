{{ compute_deltas(ref('stg_changes'), ref('stg_truncates'), get_service_dimensions()) }}
