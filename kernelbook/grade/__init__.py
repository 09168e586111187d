"""Grading: submission → assemble → run in the sandbox under nbval → compare → record → report."""
