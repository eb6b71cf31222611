{{ config(
    indexes=[{'columns': ['service_id', 'template_id']}],
    post_hook=[
        "{{ keep_index(
            ['service_id', 'notification_type', 'notification_status'], covering_columns()
        ) }}",
        "{{ keep_index(
            ['template_id', 'notification_type', 'notification_status'], covering_columns()
        ) }}",
    ],
) }}

{{ additive_fact(
    deltas=ref('int_service_deltas'),
    dimensions=service_dimensions(),
    additive={
        'live_count': {'part': 'live'},
        'archived_count': {'part': 'archived'},
    },
    derived={
        'count': 'greatest(live_count + archived_count, 0)' if var('count_archived')
            else 'greatest(live_count, 0)',
    },
) }}
