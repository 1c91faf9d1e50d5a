"""What the program `polykv` does, a module a command or a few that belong together."""
