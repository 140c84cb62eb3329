"""The page: its content as plain documents, and the static files that draw them.

A document is a JSON dict, built by a pure function of results, runs, attempts, agents and curves.
The embedded backend serves documents as they change; a report embeds them in one file. The same
scripts draw both: only `static/data.js` knows where a document comes from. Nothing here knows a
database, a server or a clock, and no HTML contains user-chosen text: scripts insert it as text.
"""
