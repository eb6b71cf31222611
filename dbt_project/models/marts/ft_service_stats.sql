{{ config(
    post_hook=[
        "{{ keep_index(['service_id', 'notification_type', 'notification_status']) }}",
        "{{ keep_index(['template_id', 'notification_type', 'notification_status']) }}",
        "{{ keep_index(['service_id', 'template_id']) }}",
    ],
) }}

{{ additive_fact(
    deltas=ref('int_service_deltas'),
    dimensions=get_service_dimensions(),
    additive={
        'live_count': {'part': 'live'},
        'archived_count': {'part': 'archived'},
    },
    derived={
        'count': 'greatest(live_count + archived_count, 0)' if var('count_archived')
            else 'greatest(live_count, 0)',
    },
) }}
