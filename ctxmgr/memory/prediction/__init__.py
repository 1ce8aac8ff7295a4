"""What an agent will need next, from what it does: files, and the memories about them."""
