{{ config(indexes=[{'columns': ['service_id'], 'unique': true}]) }}

{{ additive_fact(
    deltas=ref('int_service_deltas'),
    dimensions={'service_id': 'uuid'},
    additive={'live_count': {'part': 'live'}, 'archived_count': {'part': 'archived'}},
    derived={'count': 'live_count + archived_count'},
) }}
