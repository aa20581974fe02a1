"""How fast exact is: one log, several ways to its windows, measured side by side. ``make bench`` runs it."""
