"""Events leaving the group: rows and sealed segments."""
