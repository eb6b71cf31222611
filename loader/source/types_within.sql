-- Joins to `parts` and its type `t`, in a recursive query, the types that this one is made of.
cross join lateral (
    select t.typelem
    union all
    select t.typbasetype
    union all
    select r.rngsubtype from pg_range as r
    where t.oid in (r.rngtypid, r.rngmultitypid)
    union all
    select a.atttypid
    from pg_attribute as a
    where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
) as inner_type (type)
where inner_type.type <> 0
