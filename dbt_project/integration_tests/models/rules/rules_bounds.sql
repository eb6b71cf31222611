{{ show_deltas(
    tables={
        'orders': 'shop.orders',
        'refunds': {
            'table': 'shop.refunds',
            'columns': {'Channel': 'source', 'placed_at': 'refunded_at', 'amount': 'value'},
        },
    },
    dimensions={'Channel': 'text'},
    measures={
        'count': {'count': none},
        'paid': {'sum': 'amount', 'of': 'orders', 'where': {'state': {'in': ['paid']}}},
        'large': {'count': none, 'where': {'amount': {'at_least': 9.5, 'below': '100'}}},
        'square': {'sum': {'product': ['amount', 'amount']}, 'of': 'orders', 'type': 'numeric(8, 3)'},
        'priced': {'sum': {'product': ['amount', 'units']}, 'of': 'orders'},
        'early': {'count': 'refunds', 'where': {'placed_at': {'below': '2026-07-02 12:00:00'}}},
    },
    where={'placed_at': {'at_least': '2026-07-01'}, 'state': {'not_in': ['draft']}},
) }}
