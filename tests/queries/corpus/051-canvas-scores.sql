-- Canvas LMS (instructure/canvas-lms)
-- tables
create table assignments (id bigint primary key, course_id bigint not null, state text not null);
create table enrolments (id bigint primary key, course_id bigint not null, user_id bigint not null, kind text not null, state text not null);
create table submissions (id bigint primary key, assignment_id bigint not null references assignments, user_id bigint not null, score double precision,
    excused boolean, state text not null);

-- query
select s.assignment_id, max(s.score), min(s.score), avg(s.score), count(*)
from submissions as s join assignments as a on a.id = s.assignment_id
where a.course_id = 1 /* :course */ and a.state = 'published' and s.excused is not true and s.score is not null and s.state = 'graded'
    and s.user_id in (select e.user_id from enrolments as e where e.course_id = 1 and e.kind = 'student'
        and e.state not in ('rejected', 'completed', 'deleted', 'inactive'))
group by s.assignment_id;

-- model grades
{{ config(materialized='waltally') }}
select id, assignment_id, user_id, score::text::numeric as score from {{ source('app', 'submissions') }} where excused is not true and score is not null and state = 'graded';

-- model published
{{ config(materialized='waltally') }}
select id, course_id from {{ source('app', 'assignments') }} where state = 'published';

-- model students
{{ config(materialized='waltally') }}
select course_id, user_id, count(*) as enrolments from {{ source('app', 'enrolments') }}
where kind = 'student' and state not in ('rejected', 'completed', 'deleted', 'inactive') group by 1, 2;

-- model scores
{{ config(materialized='waltally') }}
select a.course_id, s.assignment_id, s.score, count(*) as submissions
from {{ ref('grades') }} as s join {{ ref('published') }} as a on a.id = s.assignment_id join {{ ref('students') }} as e on e.course_id = a.course_id and e.user_id = s.user_id
group by 1, 2, 3;

-- model statistics
{{ config(materialized='waltally') }}
select course_id, assignment_id, max(score) as best, min(score) as least, sum(score * submissions) as points, sum(submissions) as submissions
from {{ ref('scores') }} group by 1, 2;

-- reads
select assignment_id, best::double precision as max, least::double precision as min, points::double precision / submissions::double precision as avg, submissions as count
from {{ ref('statistics') }} where course_id = 1;

-- values
-- course_id: 1 | 1 | 2
-- assignments.state: 'published' | 'published' | 'deleted'
-- submissions.state: 'graded' | 'graded' | 'submitted'
-- enrolments.state: 'active' | 'active' | 'completed'
-- kind: 'student' | 'student' | 'teacher'
-- excused: null | false | true
