"""GraphQL resolvers, one file for each noun of the schema. They translate and call; no SQL here."""
