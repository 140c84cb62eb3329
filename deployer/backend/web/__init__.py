"""The pages' routes: sign-in, HTML, documents, change events, and actions on sweeps.

`results` and `views` read the database into the types of W&B's client, `deployer.page` builds
documents from them, and `routes` sends these as JSON next to one HTML shell. Nothing here draws,
and no HTML contains users' data.
"""
