{{ show_deltas(
    tables={'orders': 'shop.orders', 'refunds': {'table': 'shop.refunds', 'deletes': 'ignore'}},
    dimensions={
        'month': {
            'month_of': 'placed_at',
            'timezone': 'UTC',
            'column_timezone': 'America/New_York',
        },
    },
    measures={'amount': {'sum': 'amount', 'of': 'orders'}, 'refunds': {'count': 'refunds'}},
    where={'state': {'is_null': false}},
) }}
