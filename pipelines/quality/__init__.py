"""What must hold of the tables: arrival order, one fate for every event."""
