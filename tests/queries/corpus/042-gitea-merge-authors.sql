-- Gitea (go-gitea/gitea)
-- tables
create table issues (id bigint primary key, author_id bigint not null);
create table pull_requests (id bigint primary key, issue_id bigint not null references issues, repo_id bigint not null, merged boolean not null, merged_unix bigint);

-- query
select count(distinct i.author_id) as authors
from pull_requests as p join issues as i on i.id = p.issue_id
where p.repo_id = 1 /* :repo */ and p.merged and p.merged_unix >= 1764000000 /* :from */;

-- values
-- author_id: 1 | 2 | 3 | 4 | 5 | 6
-- issues.id: 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8
-- issue_id: 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8
-- repo_id: 1 | 1 | 2
-- merged: true | true | true | false
-- merged_unix: 1763999999 | 1764000000 | 1764003600 | 1780000000 | null
