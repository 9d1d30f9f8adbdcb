"""Who waits for whom: chains of waits, from a rank to whoever owes it something. No accusation."""
