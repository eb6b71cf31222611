{{ show_deltas(
    tables={'orders': 'shop.orders'},
    dimensions={'shop': {'from': 'slot'}},
    measures={'orders': {'count': 'orders'}},
) }}
