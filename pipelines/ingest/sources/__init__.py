"""Where arrivals come from: readers that give what is new since a bookmark, message by message."""
