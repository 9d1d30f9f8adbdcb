"""The log files of this node's jobs: finding and reading them."""
