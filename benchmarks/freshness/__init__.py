"""From a commit to the fact: how long a change takes."""
