{{ show_deltas(
    tables={'rows': 'shop.typed'},
    dimensions={
        'flag': 'boolean',
        'small': 'smallint',
        'whole': 'integer',
        'big': 'bigint',
        'price': 'numeric(6, 2)',
        'on_day': 'date',
        'at_time': 'timestamp',
        'at_moment': 'timestamptz',
    },
    measures={'units': {'sum': 'units', 'type': 'bigint'}},
) }}
