{{ waltally.current_rows(
    table='public.projects',
    key=['office', 'id'],
    columns={
        'office': {'from': 'slot'},
        'id': 'bigint',
        'name': 'text',
        'budget': 'numeric(12, 2)',
        'is_open': 'boolean',
        'brief': 'text',
    },
) }}
