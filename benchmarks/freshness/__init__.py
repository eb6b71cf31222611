"""From a commit to the model: how long a change takes."""
