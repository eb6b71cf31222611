{# A step of bound_batch, for a rebuild: why the fact waits, null where it does not. It waits where
   it was added or changed and its own baseline is not there yet: what it held stays as it was. #}
{% macro find_missing_baseline(declared, replaces_rows) -%}
if state.counted_by is distinct from state.declaration then
            if state.baseline_id is not null then
                waits := 'its baseline was counted by another declaration';
            elsif
                to_regclass({{ waltally.quote_literal(this.include(database=false) | string) }}) is not null
                and state.built_by is not distinct from state.declaration
            then
                -- It is as it was declared; refuse_rebuild judges what the log holds.
                null;
            elsif state.has_any_baseline then
                waits := 'other facts of the slot have a baseline and it has none';
            elsif state.pruned_from_lsn is not null then
                waits := 'it has no baseline, and the change log before ' || state.start_lsn || ' is pruned';
            elsif state.position_lsn > state.start_lsn and state.followed_lsn is null then
                waits := 'it has no baseline, and the change log does not hold all of its tables yet';
            elsif state.position_lsn > state.start_lsn and state.followed_lsn > state.start_lsn then
                waits := 'it has no baseline, and the change log holds its tables only from '
                    || state.followed_lsn || ' on';
            end if;
        elsif
            state.snapshot_lsn >= state.start_lsn
            and state.position_lsn > state.snapshot_lsn
            and coalesce(state.followed_lsn > state.snapshot_lsn, true)
        then
            waits := format(
                'its baseline is at %s, and the change log holds its tables %s',
                state.snapshot_lsn,
                coalesce('only from ' || state.followed_lsn || ' on', 'not yet')
            );
        end if;
        {%- if replaces_rows and declared.dimensions | selectattr('kind', 'equalto', 'slot') | list %}
        if waits is null then
            {{ waltally.find_unready_slot() }}
        end if;
        {%- endif %}
{%- endmacro %}
