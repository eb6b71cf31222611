-- Each rejected change is one that the counts of its fact lack. `loader setup --check` says how to
-- fix the table; a new seed then counts it and clears the list.
-- dbt build skips a model that is downstream of all that a failed test names. A rejection may hold
-- up nothing, so a source is named here that no model reads; and the fact, to be built before this.
-- depends_on: {{ ref('ft_service_stats') }}, {{ source('cdc', 'archive_position') }}
select * from {{ ref('rejected_changes') }}
