"""Files: safe names, untrusted files, private files."""
