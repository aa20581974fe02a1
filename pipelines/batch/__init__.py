"""The batch engine: the rules of every profile as DataFrame programs; rows never leave the JVM."""
