"""The page's addresses: signing in, HTML, documents, changes, and what is done to a sweep.

`results` and `views` read the database in the words of W&B's client, `deployer.page` makes
documents of that, and `routes` sends them as JSON beside one HTML shell. Nothing here draws, and no
HTML holds data that a user chose.
"""
