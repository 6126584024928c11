"""What a workspace keeps on disk: records, models, the people index, the state pointer and the lock."""
