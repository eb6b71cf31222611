{{ waltally.fact(
    tables={
        'live': 'public.notifications',
        'archived': {'table': 'public.notification_history', 'deletes': 'ignore'},
    },
    dimensions={'service_id': 'uuid'},
    measures={'live_count': {'count': 'live'}, 'archived_count': {'count': 'archived'}},
    derived={'count': 'live_count + archived_count'},
) }}
