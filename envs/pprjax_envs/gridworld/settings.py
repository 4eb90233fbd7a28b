"""What the commands of the grid world have in common; imports nothing that is slow to import."""

DRIVERS = ("experienced", "newbie")
