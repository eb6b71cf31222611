{{ waltally.fact(
    tables={'orders': 'sales.orders'},
    dimensions={
        'day': 'date',
        'channel': {'type': 'text', 'nulls': 'count'},
        'customer_id': 'integer',
        'hours': 'integer',
    },
    measures={'order_count': {'count': 'orders'}, 'amount': {'sum': 'amount'}},
) }}
