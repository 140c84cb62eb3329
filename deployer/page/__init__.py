"""The page: what it shows as plain documents, and the static files that draw them.

A document is a dict of JSON, made by a pure function of results, runs, attempts, agents and curves.
The embedded backend serves documents as they change; a report embeds them in one file. The same
scripts draw both: `static/data.js` alone knows where a document comes from. Nothing here knows a
database, a server or a clock, and no HTML holds what a user chose: scripts put it in as text.
"""
