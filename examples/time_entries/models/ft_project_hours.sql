{{ waltally.fact(
    tables={'entries': 'public.time_entries'},
    dimensions={
        'office': {'from': 'slot'},
        'project_id': {'type': 'bigint', 'nulls': 'count'},
        'month': {'month_of': 'started_at', 'timezone': 'Europe/Berlin'},
    },
    measures={
        'entry_count': {'count': 'entries'},
        'hours': {'sum': 'hours', 'of': 'entries'},
    },
) }}
