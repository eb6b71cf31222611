{{ read_changes() }}
