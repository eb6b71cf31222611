-- Each rejected change is one that the counts lack. `loader setup --check` says how to fix the
-- table; a new seed then counts it and clears the list.
select * from {{ ref('rejected_changes') }}
