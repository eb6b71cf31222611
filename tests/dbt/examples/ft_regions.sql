{{ waltally.roll_up(
    fact=ref('ft_customer_days'),
    lookups={
        'customer': {'rows': ref('customers'), 'by': {'id': 'customer_id'}},
        'region': {'rows': ref('regions'), 'by': {'id': 'customer.region_id'}},
    },
    dimensions={'channel': 'channel', 'region': 'region.name'},
    measures={
        'order_count': {'sum': 'order_count'},
        'amount': {'sum': 'amount'},
        'customers': {'distinct': 'customer_id'},
        'names': {'distinct': 'customer.name'},
        'newest': {'max': 'customer.since'},
        'first_day': {'min': 'day'},
        'p95_hours': {'percentile': 0.95, 'of': 'hours'},
    },
    derived={'average_amount': 'round(amount / nullif(order_count, 0), 2)'},
) }}
