{{ waltally.current_rows(
    table='public.services',
    key=['id'],
    columns={'id': 'uuid', 'name': 'text'},
) }}
