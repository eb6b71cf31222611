-- The rows of public.orders as they are now, of its history: of each key the last image counts, and
-- what came before the last TRUNCATE does not. An old image says that its key is gone.
with images as (
    select struct(commit_lsn, ordinal, 1) as place, true as is_there, id, struct(state) as columns
    from history
    where op in ('insert', 'update')
    union all
    select struct(commit_lsn, ordinal, 0), false, old.id, null
    from history
    where op in ('update', 'delete')
),

newest as (
    select id, max(place) as place, max_by(is_there, place) as is_there, max_by(columns, place) as columns
    from images
    group by id
),

emptied as (
    select max(struct(commit_lsn, ordinal, 1)) as place from history where op = 'truncate'
)

select newest.id, newest.columns.*
from newest
cross join emptied
where newest.is_there and (emptied.place is null or newest.place > emptied.place)
