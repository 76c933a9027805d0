"""Bridges to other tools: the plug-in of pytest."""
