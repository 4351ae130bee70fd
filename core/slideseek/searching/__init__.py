"""From a request to an answer: queries, filters, votes, feedback, evidence and the log."""
