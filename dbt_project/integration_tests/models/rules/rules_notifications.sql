{{ show_deltas(
    tables={
        'live': 'public.notifications',
        'archived': {'table': 'public.notification_history', 'deletes': 'ignore'},
    },
    dimensions={
        'service_id': 'uuid',
        'template_id': 'uuid',
        'notification_type': 'text',
        'notification_status': 'text',
    },
    measures={'live_count': {'count': 'live'}, 'archived_count': {'count': 'archived'}},
) }}
