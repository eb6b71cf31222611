{{ waltally.roll_up(
    fact=ref('ft_regions'),
    dimensions={'channel': 'channel'},
    measures={
        'order_count': {'sum': 'order_count'},
        'regions': {'distinct': 'region'},
        'longest': {'max': 'p95_hours'},
    },
) }}
