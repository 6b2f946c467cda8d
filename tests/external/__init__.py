"""Cases and scripts that others wrote, run against ours."""
