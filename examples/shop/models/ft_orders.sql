{{ waltally.fact(
    tables={
        'orders': {
            'table': '"Web Shop"."Orders"',
            'columns': {
                'channel': 'Channel',
                'status': 'Status',
                'placed_at': 'placedAt',
                'quantity': 'Quantity',
                'price': 'Unit price',
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
        'paid_count': {'count': 'orders', 'where': {'status': {'in': ['paid', 'sent']}}},
        'refund_count': {'count': 'orders', 'where': {'amount': {'below': 0}}},
        'amount': {'sum': 'amount', 'of': 'orders', 'type': 'numeric(20, 4)'},
        'revenue': {'sum': {'product': ['quantity', 'price']}, 'of': 'orders', 'type': 'numeric(20, 2)'},
    },
    where={'status': {'not_in': ['draft']}},
    derived={'average_amount': 'round(amount / nullif(order_count, 0), 2)'},
) }}
