{{ waltally.fact(
    tables={'live': 'public.notifications'},
    dimensions={'service_id': 'uuid'},
    measures={'units': {'sum': 'billable_units'}},
) }}
