{{ waltally.fact(
    tables={'live': 'public.notifications'},
    dimensions={'notification_status': 'text'},
    measures={'notifications': {'count': 'live'}},
) }}
