-- What an application would keep by triggers: the count of each group, moved in its own
-- transactions. Made as well as triggers allow: changes of a group within a statement are added up,
-- an update that moves no dimension costs nothing, the groups of a statement are taken in one order
-- (two sessions would deadlock otherwise), and free space lets a group's row stay on its page.

create table trigger_counts (
    service_id uuid not null,
    template_id uuid not null,
    notification_type notification_type not null,
    notification_status text not null,
    count bigint not null,
    primary key (service_id, template_id, notification_type, notification_status)
) with (fillfactor = 30);

insert into trigger_counts
select
    service_id,
    template_id,
    notification_type,
    notification_status,
    count(*)
from notifications
group by service_id, template_id, notification_type, notification_status;

create function count_inserted() returns trigger language plpgsql as $$
begin
    insert into trigger_counts as counts
    select service_id, template_id, notification_type, notification_status, count(*)
    from new_rows
    group by service_id, template_id, notification_type, notification_status
    order by service_id, template_id, notification_type, notification_status
    on conflict (service_id, template_id, notification_type, notification_status)
    do update set count = counts.count + excluded.count;
    return null;
end
$$;

create function count_updated() returns trigger language plpgsql as $$
begin
    insert into trigger_counts as counts
    select service_id, template_id, notification_type, notification_status, sum(sign)
    from (
        select service_id, template_id, notification_type, notification_status, -1 as sign
        from old_rows
        union all
        select service_id, template_id, notification_type, notification_status, 1
        from new_rows
    ) as images
    group by service_id, template_id, notification_type, notification_status
    having sum(sign) <> 0
    order by service_id, template_id, notification_type, notification_status
    on conflict (service_id, template_id, notification_type, notification_status)
    do update set count = counts.count + excluded.count;
    return null;
end
$$;

create trigger count_inserted after insert on notifications
referencing new table as new_rows for each statement execute function count_inserted();
create trigger count_updated after update on notifications
referencing old table as old_rows new table as new_rows
for each statement execute function count_updated();
