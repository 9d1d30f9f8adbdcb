"""Rule files (TOML): rankdbg's own lie beside this, users add theirs."""
