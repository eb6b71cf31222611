{{ waltally.fact(
    tables={'entries': 'time.entries', 'plans': 'time.plans', 'leave': 'time.leave'},
    dimensions={
        'project': 'integer',
    },
    measures={
        'row_count': {'count': none},
        'long': {
            'sum': 'hours',
            'of': 'entries',
            'where': {'hours': {'at_least': 0.25, 'not_in': ['8']}},
        },
        'square': {'sum': {'product': ['hours', 'hours']}, 'type': 'numeric(9, 4)'},
        'weight': {
            'sum': {'product': ['hours', 'project']},
            'of': ['entries', 'plans'],
            'where': {'project': {'at_least': 2}},
        },
        'late': {'count': none, 'where': {'at': {'at_least': '2026-06-30 12:00:00'}}},
        'few': {
            'count': ['plans', 'leave'],
            'where': {'project': {'below': 2, 'is_null': false}, 'at': {'below': '2026-07-01'}},
        },
    },
    where={'hours': {'below': 10}},
) }}
