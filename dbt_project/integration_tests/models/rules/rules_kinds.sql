{{ show_deltas(
    tables={'rows': 'shop.typed'},
    dimensions={
        'state': {'type': 'int', 'labels': {'0': 'draft', '1': 'paid', '2': 'paid'}},
        'is_open': {'type': 'bool', 'labels': {true: 'open', false: "it's closed"}, 'nulls': 'count'},
        'small': {'type': 'smallint', 'labels': {'1': 'one'}, 'else': "it's another", 'nulls': 'count'},
        'size': {'bucket_of': 'price', 'bounds': [0, 9.5, 100], 'nulls': 'count'},
        'units_from': {'bucket_of': 'units', 'bounds': [-5, 10]},
        'watch': {'bucket_of': 'at_moment', 'every': '6 hours', 'timezone': 'America/Havana'},
        'city': {'path': ['address', 'city'], 'of': 'details', 'nulls': 'count'},
        'floor': {'path': ['floors', 0], 'of': 'details', 'type': 'smallint', 'nulls': 'count'},
    },
    measures={
        'rows': {'count': 'rows'},
        'not_flagged': {'count': 'rows', 'where': {'flag': {'in': [false, none]}}},
        'without_flag': {'count': 'rows', 'where': {'flag': {'in': [none]}}},
        'with_flag': {'count': 'rows', 'where': {'flag': {'not_in': [none]}}},
        'flagged': {'count': 'rows', 'where': {'flag': {'not_in': [false, none]}}},
    },
) }}
