{{ waltally.fact(
    tables={'entries': 'time.entries'},
    dimensions={
        'hour': {'hour_of': 'at', 'timezone': 'Asia/Kathmandu'},
        'slice': {'bucket_of': 'at', 'every': '8 hours', 'timezone': 'Pacific/Auckland', 'nulls': 'count'},
        'length': {'bucket_of': 'hours', 'bounds': [0, 0.25, 8], 'nulls': 'count'},
        'project': {'type': 'int', 'labels': {'1': 'first', '3': 'first'}, 'nulls': 'count'},
        'note': {'path': ['note', 0], 'of': 'details', 'nulls': 'count'},
    },
    measures={'row_count': {'count': 'entries'}},
) }}
