{{ show_deltas(
    tables={'rows': 'shop.typed'},
    dimensions={
        'hour': {'hour_of': 'at_moment', 'timezone': 'Asia/Kathmandu'},
        'berlin_hour': {'hour_of': 'at_moment', 'timezone': 'Europe/Berlin'},
        'week': {'week_of': 'at_moment', 'timezone': 'Pacific/Auckland'},
        'quarter': {
            'quarter_of': 'at_time',
            'timezone': 'UTC',
            'column_timezone': 'America/New_York',
        },
        'year': {'year_of': 'on_day', 'timezone': 'UTC'},
    },
    measures={'rows': {'count': 'rows'}},
) }}
