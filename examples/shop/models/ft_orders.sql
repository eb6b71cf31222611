{{ waltally.fact(
    tables={
        'orders': {
            'table': '"Web Shop"."Orders"',
            'columns': {
                'channel': 'Channel',
                'status': 'Status',
                'placed_at': 'placedAt',
                'amount': 'Total, gross',
            },
        },
    },
    dimensions={
        'day': {'type': 'date', 'date_of': 'placed_at', 'timezone': 'Europe/Berlin'},
        'channel': {'type': 'text', 'nulls': 'count'},
    },
    measures={
        'order_count': {'count': 'orders'},
        'amount': {'sum': 'amount', 'of': 'orders', 'type': 'numeric(20, 4)'},
    },
    where={'status': {'not_in': ['draft']}},
    derived={'average_amount': 'round(amount / nullif(order_count, 0), 2)'},
) }}
