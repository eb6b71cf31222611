-- Coder (coder/coder)
-- tables
create table agent_stats (id uuid primary key, user_id uuid not null, template_id uuid not null, created_at timestamptz not null, connections bigint not null,
    sessions_editor bigint not null, sessions_ssh bigint not null);

-- query
select sum(editor) as editor_seconds, sum(ssh) as ssh_seconds
from (
    select date_trunc('minute', created_at), user_id, case when sum(sessions_editor) > 0 then 60 else 0 end as editor,
        case when sum(sessions_ssh) > 0 then 60 else 0 end as ssh
    from agent_stats
    where created_at >= '2026-11-01' /* :from */ and created_at < '2026-11-25' /* :to */ and connections > 0
    group by 1, 2
) as m;

-- values
-- connections: 0 | 1 | 2
-- sessions_editor: 0 | 0 | 3
-- sessions_ssh: 0 | 1
