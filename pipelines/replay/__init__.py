"""A replay: build the plan, run its stages, replace exactly the output range."""
