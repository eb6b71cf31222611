{{ waltally.fact(
    tables={'live': 'public.notifications'},
    dimensions={'service_id': 'uuid', 'key_type': 'text'},
    measures={'count': {'count': 'live'}},
) }}
