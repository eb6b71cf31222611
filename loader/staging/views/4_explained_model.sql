-- The verdict on each model in words: its state, the reason, and what it needs. explain_models makes the remedy of it.
create or replace view cdc.explained_model as
select
    planned.*,
    case
        when tried.is_failed then 'failed'
        when planned.verdict = 'change without its old row' then 'waits'
        when planned.step = 'add' then 'follows'
        when planned.verdict in (
            'of another slot', 'baseline gone', 'ahead of the log', 'behind the log', 'baseline of another cluster',
            'baseline before the log'
        ) then 'failed'
        else 'waits'
    end as state,
    case
        when tried.is_failed and is_locked then 'it could not be locked: ' || error
        when tried.is_failed then error
        when planned.is_former and planned.step = 'add' and not planned.is_installed
            then format('it is a copy of %s, which has another query: the former query is applied', original)
        when planned.is_former and planned.step = 'add'
            then 'its query has changed: until a seed has counted it, the former query is applied'
        else case planned.verdict
            when 'table lacks something' then lacks ->> 'reason'
            when 'another query'
                then format('it is a copy of %s, which has another query, so nothing is followed for it', original)
            when 'column gone'
                then gone_columns || case when is_former then '; a seed counts its new query' else '' end
            when 'of another slot'
                then format('it is built from the slot %s; a second slot would mix its counts with these', other_slot)
            when 'baseline gone' then 'the baseline that it was built on is gone'
            when 'ahead of the log'
                then format('it holds changes up to %s, the change log only up to %s', applied_lsn, position_lsn)
            when 'behind the log'
                then format('the change log starts at %s, it holds changes only up to %s', start_lsn, applied_lsn)
            when 'log lacks columns' then concat(
                'the change log does not hold everything that it needs from ', applied_lsn, ' on', ': ' || gap_event
            )
            when 'baseline of another declaration' then 'its baseline was counted by another declaration'
            when 'change without its old row' then format(
                'a change after %s came without the old row''s values (see rejected_changes): what it changed is not'
                ' known', lost_lsn
            )
            when 'not seeded' then 'it waits for its seed: without the rows from before its numbers would be wrong'
            when 'baseline of another cluster' then 'its baseline was taken from another cluster than the slot reads'
            when 'baseline before the log'
                then format('the change log starts at %s, after its baseline at %s', start_lsn, snapshot_lsn)
            when 'log lacks columns after the baseline' then format(
                'its baseline is at %s, and the change log holds its tables %s',
                snapshot_lsn,
                coalesce('only from ' || held_lsn::text || ' on' || coalesce(': ' || gap_event, ''), 'not yet')
            )
            when 'to be rebuilt' then case
                when applied_lsn is null then 'it was not built yet'
                when (built_by is distinct from registered) then 'its rows were counted by another declaration'
                when is_refresh_asked then 'dbt asked for a full refresh'
                else 'it was not built on its newest baseline yet'
            end
            when 'follows' then tried.upgraded
        end
    end as reason,
    -- The steps of the remedy; null where it has one of its own. A seed is one of them unless there is a baseline of
    -- the declaration that counts.
    case
        when tried.is_failed then null
        when planned.verdict = 'another query' or planned.is_former and not planned.is_installed then array['copy']
        when planned.is_former and (planned.step = 'add' or planned.verdict = 'column gone') then array['seed']
        when planned.verdict = 'log lacks columns' then array['run', 'seed']
        -- Setup says which SQL mends the replica identity.
        when planned.verdict = 'change without its old row' then array['setup', 'seed']
        when starts_with(planned.verdict, 'log lacks columns') and held_lsn is null then array['run', 'seed']
        when tried.upgraded is not null then array['audit']
        when planned.verdict not in (
            'follows', 'to be rebuilt', 'of another slot', 'table lacks something', 'column gone'
        )
            then array['seed']
    end as needs,
    tried.is_failed
from cdc.planned_model as planned
cross join lateral (
    select
        planned.error is not null and planned.step is not null as is_failed,
        case when planned.verdict = 'follows' then cdc.explain_upgrade(planned.major_version) end as upgraded
    limit all offset 0
) as tried;
