{{ waltally.current_rows(
    table='time.projects',
    key=['office', 'id'],
    columns={'office': {'from': 'slot'}, 'id': 'integer', 'Name': 'text', 'notes': 'text'},
) }}
