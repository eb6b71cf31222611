{{ waltally.current_rows(
    table='sales.regions',
    key=['id'],
    columns={'id': 'integer', 'name': 'text'},
) }}
