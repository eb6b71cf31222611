{{ waltally.fact(
    tables={
        'parcels': {
            'table': '"Web Shop"."Parcels"',
            'columns': {'customer_no': 'Customer no', 'sent_at': 'sentAt', 'days': 'Days'},
        },
    },
    dimensions={
        'month': {'month_of': 'sent_at', 'timezone': 'Europe/Berlin'},
        'customer_no': {'type': 'bigint', 'nulls': 'count'},
        'days': {'type': 'integer', 'nulls': 'count'},
    },
    measures={'parcel_count': {'count': 'parcels'}},
    engine='spark',
) }}
