"""From a query as an application sends it to models that keep it, a view and a proof."""
