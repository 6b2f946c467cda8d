"""The member process (`rollq leader`): driver, gateway, sessions, roll call."""
