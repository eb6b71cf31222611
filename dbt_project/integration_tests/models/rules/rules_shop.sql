{{ show_deltas(
    tables={
        'orders': 'shop.orders',
        'refunds': {
            'table': 'shop.refunds',
            'columns': {'Channel': 'source', 'placed_at': 'refunded_at', 'amount': 'value'},
        },
    },
    dimensions={
        'Channel': {'type': 'text', 'nulls': 'count'},
        'day': {'type': 'date', 'date_of': 'placed_at', 'timezone': 'Europe/London'},
    },
    measures={
        'count': {'count': none},
        'net': {'sum': 'amount', 'type': 'numeric(12, 2)'},
    },
    where={
        'state': {'in': ['paid', 'sent']},
        'is_test': {'not_in': [true]},
    },
) }}
