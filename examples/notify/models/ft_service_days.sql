{{ waltally.fact(
    tables={
        'live': 'public.notifications',
        'archived': {'table': 'public.notification_history', 'deletes': 'ignore'},
    },
    dimensions={
        'bst_date': {'type': 'date', 'date_of': 'created_at', 'timezone': 'Europe/London'},
        'service_id': 'uuid',
        'template_id': 'uuid',
        'notification_type': 'text',
        'notification_status': 'text',
    },
    measures={
        'live_count': {'count': 'live'},
        'archived_count': {'count': 'archived'},
    },
    where={'key_type': {'not_in': ['test']}},
    derived={'count': 'greatest(live_count + archived_count, 0)'},
) }}
