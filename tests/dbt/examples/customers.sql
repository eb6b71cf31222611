{{ waltally.current_rows(
    table='sales.customers',
    key=['id'],
    columns={'id': 'integer', 'region_id': 'integer', 'since': 'date', 'name': 'text'},
) }}
