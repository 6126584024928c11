"""What is kept on disk between runs: the ledger of events, the store of files, the records, and the lock."""
