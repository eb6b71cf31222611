{%- set is_changed = var('changed', '') == 'roll_up' %}
{%- set longest = {} if var('changed', '') == 'fewer' else {'longest': {'max': 'p95_hours'}} %}
{{ waltally.roll_up(
    fact=ref('ft_regions'),
    dimensions=dict({'channel': 'channel'}, **({'region': 'region'} if is_changed else {})),
    measures=dict(
        {'order_count': {'sum': 'order_count'}, 'regions': {'distinct': 'region'}},
        **({'newest': {'max': 'newest'}} if is_changed else longest)
    ),
) }}
