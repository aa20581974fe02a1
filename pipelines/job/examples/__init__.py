"""The jobs that ship."""
