{{ waltally.fact(
    tables={
        'orders': 'shop.orders',
        'refunds': {
            'table': 'shop."Refunds, all"',
            'columns': {'Channel': 'source', 'placed_at': 'refunded_at', 'amount': 'value'},
        },
    },
    dimensions={
        'Channel': {'type': 'text', 'nulls': 'count'},
        'day': {'date_of': 'placed_at', 'timezone': 'Europe/London'},
    },
    measures={
        'order_count': {'count': 'orders'},
        'row_count': {'count': none},
        'Net, total': {'sum': 'amount', 'type': 'numeric(12, 2)'},
        'gross': {'sum': 'amount', 'of': 'orders'},
    },
    where={'state': {'in': ['paid', 'sent']}, 'is_test': {'not_in': [true]}},
    derived={'mean': 'gross / nullif(order_count, 0)'},
) }}
