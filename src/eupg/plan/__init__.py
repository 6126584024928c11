"""Before training: what each guarantee and exposure would cost and give, on this very table."""
