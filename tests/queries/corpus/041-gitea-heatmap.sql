-- Gitea (go-gitea/gitea)
-- tables
create table actions (id bigint primary key, user_id bigint not null, repo_id bigint, created_unix bigint not null);

-- query
select created_unix / 900 * 900 as quarter_hour, count(*) as actions
from actions
where user_id = 1 /* :user */ and created_unix > extract(epoch from now()) - 373 * 86400 and repo_id in (1, 2) /* :repos */
group by quarter_hour order by quarter_hour;

-- values
-- user_id: 1 | 2
-- created_unix: extract(epoch from now())::bigint | extract(epoch from now())::bigint - 700 | extract(epoch from now())::bigint - 372 * 86400 | extract(epoch from now())::bigint - 374 * 86400
