{{ signed_deltas(
    ref('stg_changes'),
    dimensions={
        'service_id': 'uuid',
        'template_id': 'uuid',
        'notification_type': 'text',
        'notification_status': 'text',
    },
) }}
