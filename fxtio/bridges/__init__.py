"""Bridges to other tools: plug-ins, and what brings their traces into recordings."""
