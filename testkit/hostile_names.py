"""Names that would be code in one of the languages that a name passes through."""

from __future__ import annotations

ATTACK = "create role evil"
NAMES = (
    f'#}}}}{{{{run_query("{ATTACK}")}}}}{{#',
    f"{{%do run_query('{ATTACK}')%}}",
    "%s %(name)s 100%",
    "{{ 7 * 7 }}",
    f"'); {ATTACK}; --",
    f'"; {ATTACK}; --',
    f"row_count is null; {ATTACK}; --",
    f"$routine$;{ATTACK};select$routine$",
    f"$reader$;{ATTACK};do$reader$",
    "$(touch pwned)`touch pwned`",
    "back\\slash \\u0041 \\N{DIGIT ONE} \\' \\",
    "key: [value, # no comment",
    "{{ env_var('PGPASSWORD') }}",
    "- &anchor *alias !!python/none |",
    ' leading, "quoted".and trailing ',
    "\u00a0no\u200bthing\ufeff",
    "Größe_数量",
    "1 or 'a' = 'a",
)
"""Of schemas, tables and columns; and values."""
