{{ config(indexes=[{'columns': ['service_id'], 'unique': true}]) }}

{{ additive_fact(
    dimensions={'service_id': 'uuid'},
    additive={'units': {'part': 'live', 'sum': 'billable_units'}},
) }}
