{{ read_truncates() }}
