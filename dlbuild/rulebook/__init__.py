"""What is known about operators: rules, the small languages they are written in, matching."""
