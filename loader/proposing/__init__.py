"""From a query as an application sends it to models that keep it, a view and a proof.

How to read it: `propose` has the steps. `prepare` makes trees of the file's queries (`tree`,
`scope`), with marks for the tables that `plan` knows. `split` goes through the SELECTs of a query,
`ways` tries how one of them can be kept, and `keep` with `kept` writes a model and the query over
it; `copies` writes models of a table's rows. `compiling` judges models, and `files` writes them.

Beside that way: `catalog` asks the source and `questions` the user; `refuse` says what is not kept.
One case each have `aggregates`, `grain` (ranges of time), `lookups` (EXISTS and IN), `ranked`
(first rows of groups), `rollup` (answers) and `zone`. `prove` compares query and view; `sizes`
and `price` say what keeping costs; `stopping` lets a signal end what takes too long.
"""
