"""Plans and verdicts as text for people."""
