{{ signed_deltas(ref('stg_changes'), ref('stg_truncates'), service_dimensions()) }}
