{{ waltally.fact(
    tables={'entries': 'time.entries', 'plans': 'time.plans', 'leave': 'time.leave'},
    dimensions={
        'office': {'from': 'slot'},
        'project': 'integer',
        'month': {'month_of': 'at', 'timezone': 'Pacific/Auckland'},
    },
    measures={
        'hours': {'sum': 'hours', 'of': 'entries'},
        'planned': {'sum': 'hours', 'of': 'plans'},
        'absences': {'count': 'leave'},
    },
) }}
