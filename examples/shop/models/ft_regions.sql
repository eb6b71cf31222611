{{ waltally.roll_up(
    fact=ref('ft_parcels'),
    lookups={'customer': {'rows': ref('customers'), 'by': {'Customer no': 'customer_no'}}},
    dimensions={'month': 'month', 'region': 'customer.Region'},
    measures={
        'parcel_count': {'sum': 'parcel_count'},
        'customer_count': {'distinct': 'customer_no'},
        'median_days': {'percentile': 0.5, 'of': 'days'},
        'p95_days': {'percentile': 0.95, 'of': 'days'},
        'longest_days': {'max': 'days'},
    },
    derived={'parcels_per_customer': 'round(parcel_count::numeric / nullif(customer_count, 0), 2)'},
) }}
