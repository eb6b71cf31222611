-- Refuse a query for all that is wrong with it at once: each reason, with where it stands, and each remedy a line.
-- Null: nothing is. The paths are of `nodes`; null of what is said of the whole query.
create or replace function cdc.refuse(nodes cdc.tree_node[], reasons text[], remedies text[], paths text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    said record;
begin
    select
        string_agg(format('%s%s.', found.reason, ' (' || found.places || ')'), e'\n' order by found.reason) as reasons,
        string_agg(format('Instead: %s.', found.remedy), e'\n' order by found.reason) as remedies
    into said
    from (
        select one.reason, one.remedy, string_agg(distinct cdc.say_place(nodes, one.path), ', ') as places
        from unnest(reasons, remedies, paths) as one (reason, remedy, path)
        group by one.reason, one.remedy
    ) as found;
    if said.reasons is not null then
        raise exception '%', said.reasons using errcode = 'WL003', hint = said.remedies;
    end if;
end
$$;
