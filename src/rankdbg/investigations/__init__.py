"""What a verb does, without a terminal: questions to a session, verdicts on the answers, and the
results as immutable values. Front ends show them; `rankdbg.connect()` returns them."""
