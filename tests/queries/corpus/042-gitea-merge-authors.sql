-- Gitea (go-gitea/gitea)
-- tables
create table issues (id bigint primary key, author_id bigint not null);
create table pull_requests (id bigint primary key, issue_id bigint not null references issues, repo_id bigint not null, merged boolean not null, merged_unix bigint);

-- query
select count(distinct i.author_id) as authors
from pull_requests as p join issues as i on i.id = p.issue_id
where p.repo_id = 1 /* :repo */ and p.merged and p.merged_unix >= 1764000000 /* :from */;

-- model merged_requests
{{ config(materialized='waltally') }}
select id, issue_id, repo_id, merged_unix / 3600 as hour from {{ source('app', 'pull_requests') }} where merged;

-- model issue_authors
{{ config(materialized='waltally') }}
select id, author_id from {{ source('app', 'issues') }};

-- model merges
{{ config(materialized='waltally') }}
select p.repo_id, p.hour, i.author_id, count(*) as requests from {{ ref('merged_requests') }} as p join {{ ref('issue_authors') }} as i on i.id = p.issue_id group by 1, 2, 3;

-- reads
select count(distinct author_id) as authors from {{ ref('merges') }} where repo_id = 1 and hour >= 1764000000 / 3600;

-- values
-- repo_id: 1 | 1 | 2
-- merged: true | true | false
-- merged_unix: 1763999999 | 1764000000 | 1764003600 | 1780000000 | null
