"""User interfaces: cli, shell, dap, watch; built on sessions and investigations."""
