"""Which configuration comes next, and which runs stop early; knows no database and no clock."""
