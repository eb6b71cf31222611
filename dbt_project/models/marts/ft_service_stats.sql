{{ config(
    enabled=var('notify_facts', project_name == 'waltally'),
    post_hook=[
        "{{ waltally.keep_index(['service_id', 'notification_type', 'notification_status']) }}",
        "{{ waltally.keep_index(['template_id', 'notification_type', 'notification_status']) }}",
        "{{ waltally.keep_index(['service_id', 'template_id']) }}",
    ],
) }}

{{ waltally.fact(
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
    measures={
        'live_count': {'count': 'live'},
        'archived_count': {'count': 'archived'},
    },
    derived={
        'count': 'greatest(live_count + archived_count, 0)' if var('count_archived')
            else 'greatest(live_count, 0)',
    },
) }}
