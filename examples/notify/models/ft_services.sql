{{ waltally.roll_up(
    fact=ref('ft_service_stats'),
    lookups={'service': {'rows': ref('services'), 'by': {'id': 'service_id'}}},
    dimensions={'service_id': 'service_id', 'service_name': 'service.name'},
    measures={
        'live_count': {'sum': 'live_count'},
        'archived_count': {'sum': 'archived_count'},
        'template_count': {'distinct': 'template_id'},
    },
    present='live_count',
    derived={'count': 'live_count + archived_count'},
) }}
