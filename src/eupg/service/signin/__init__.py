"""How a caller is recognised: by an API key, a session, or a proxy that is trusted."""
