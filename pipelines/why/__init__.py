"""The chain of reasons behind one event's fate, or one window's number, from no more arrivals than it hangs on."""
