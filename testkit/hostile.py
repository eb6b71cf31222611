"""What names and values may be, and a password: one table for every test of harm."""

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
VALUES = (
    'quote " and \\ backslash \\" \\\\',
    "tab\t newline\n return\r bell\x07 escape\x1b delete\x7f unit\x1f",
    "emoji 🐘, accents ñé, right to left \u202e, line separator \u2028",
    '"},{"name":"service_id","value":"00000000-0000-0000-0000-000000000001',
    '"}],"identity":[{"name":"notification_status","value":"sent"}],"x":[{"y":"',
    '{"action":"C","nextlsn":"0/1"}',
    '{"action":"B"',
    "\\u0000 \\u0022}]",
    "null",
    "$.action ? (@ == 1)",
    "",
)
"""Values that could end a message of the plugin, or be taken for a part of it."""
MARKUP = (
    "<b>failed</b>",
    '"><img src=x onerror="isRun = 1">',
    "</script><script>isRun = 1</script>",
    "javascript:isRun=1",
    "a\n\ndata: {}\n\nevent: gone",
    "__proto__",
    "\u2028\u202e${isRun = 1}",
)
"""Statuses that would be HTML, a script or an event of the stream."""
FORGED = "a\nft_service_stats  forged\r\x1b]0;title\x07\x9b31m\u202egpj\u2028b"
"""A name and a value that would forge a line of what a command prints, and command the terminal."""
SECRET = "Zebra1931Crossing"
"""The password that tests give; no output may show it."""
